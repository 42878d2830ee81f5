#!/usr/bin/env bash
# Installs the development tools, at pinned versions, into bin/ of the checkout.
# A tool that is already there at its version is left alone.
set -euo pipefail
cd "$(dirname "$0")/.."
export GOBIN="$PWD/bin" GOWORK=off GOFLAGS=-buildvcs=false
mkdir -p bin

tools=(
  github.com/bufbuild/buf/cmd/buf@v1.75.0
  google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12
  github.com/planetscale/vtprotobuf/cmd/protoc-gen-go-vtproto@v0.6.0
  github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
)
for tool in "${tools[@]}"; do
  name=$(basename "${tool%@*}")
  stamp="bin/.$name.${tool##*@}"
  if [ ! -x "bin/$name" ] || [ ! -e "$stamp" ]; then
    echo "install $tool"
    go install "$tool"
    touch "$stamp"
  fi
done
