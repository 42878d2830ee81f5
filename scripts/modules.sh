#!/usr/bin/env bash
# Checks each module by itself, as somebody would who has no workspace: its go.mod and go.sum are
# tidy, it builds, and its tests pass (the end-to-end tests excepted: they start the binaries of
# all modules and run with the workspace).
set -euo pipefail
cd "$(dirname "$0")/.."
export GOWORK=off
for module in shared authority gateway ticketing worldrouter services; do
  echo "module $module"
  (
    cd "$module"
    go mod tidy -diff
    go build ./...
    go vet ./...
    go test $(go list ./... | grep -v /e2e)
  )
done
