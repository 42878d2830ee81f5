#!/usr/bin/env bash
# Runs each fuzz target of the workspace for FUZZTIME (default 10s), all of them even if one fails.
set -euo pipefail
cd "$(dirname "$0")/.."
log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=()
while IFS=: read -r file target; do
  dir=$(dirname "$file")
  target=${target#func }
  echo "fuzz $dir $target"
  go test "./$dir" -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-10s}" </dev/null 2>&1 | tee "$log" && continue
  # The fuzzing engine sometimes takes the end of its own time for a failure. A real one has an
  # input, or something to say besides.
  if grep -qx '    context deadline exceeded' "$log" && ! grep -qE 'Failing input|_test\.go:|panic' "$log"; then
    echo "fuzz $dir $target: time was over, nothing found"
    continue
  fi
  failed+=("$dir $target")
done < <(git grep -oE '^func Fuzz[A-Za-z0-9_]+' -- '*_test.go')
if ((${#failed[@]})); then
  printf 'fuzz failed: %s\n' "${failed[@]}" >&2
  exit 1
fi
