#!/usr/bin/env bash
# Checks each module by itself, as somebody would who has no workspace: it builds, its tests
# compile, and its go.mod and go.sum are tidy.
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
  )
done
