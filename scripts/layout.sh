#!/usr/bin/env bash
# Checks what no linter knows: the rules of CONTRIBUTING.md that are about the tree.
set -euo pipefail
cd "$(dirname "$0")/.."
fail=0
complain() { echo "layout: $1" >&2; fail=1; }

# One place names every subject. (services/e2e speaks from outside, and shares nothing.)
if git grep -nE '"sy\.v1|"\$KV\.' -- '*.go' ':!shared/subject' ':!services/e2e' ':!*_test.go'; then
  complain "a subject is put together outside shared/subject"
fi
# No service imports another.
services='authority|gateway|ticketing|worldrouter'
for service in authority gateway ticketing worldrouter; do
  others=$(echo "$services" | tr '|' '\n' | grep -v "^$service$" | paste -sd'|')
  if git grep -nE "switchyard-io/switchyard/($others|services)[/\"]" -- "$service/*.go"; then
    complain "$service imports another service"
  fi
done
if git grep -nE "switchyard-io/switchyard/($services|services)[/\"]" -- 'shared/*.go'; then
  complain "shared imports a service"
fi
# A package says what it is for; a package with tests looks for goroutine leaks.
for dir in $(git ls-files '*.go' | xargs -n1 dirname | sort -u); do
  case "$dir" in */cmd/*|*/wirepb|*/testdata*) continue ;; esac
  if ls "$dir"/*.go | grep -qv '_test\.go$'; then
    grep -lqE '^// Package ' "$dir"/*.go || complain "$dir has no package comment"
    ls "$dir"/*_test.go >/dev/null 2>&1 || complain "$dir has no test"
  fi
  if ls "$dir"/*_test.go >/dev/null 2>&1; then
    grep -lq 'goleak\.' "$dir"/*_test.go || complain "$dir does not check for goroutine leaks"
  fi
done
# A main is short.
for main in $(git ls-files '*/cmd/*/main.go'); do
  [ "$(wc -l <"$main")" -lt 40 ] || complain "$main is not under 40 lines"
done
exit $fail
