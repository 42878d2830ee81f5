#!/usr/bin/env bash
# Runs each fuzz target of the workspace for FUZZTIME (default 10s).
set -euo pipefail
cd "$(dirname "$0")/.."
git grep -lE '^func Fuzz' -- '*_test.go' | while read -r file; do
  dir=$(dirname "$file")
  grep -oE '^func Fuzz[A-Za-z0-9_]+' "$file" | sed 's/func //' | while read -r target; do
    echo "fuzz $dir $target"
    go test "./$dir" -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-10s}"
  done
done
