#!/bin/sh
# Builds Jaeger v2 into the file that is named: sh jaeger.sh FILE. Needs Go 1.24 or newer; nine minutes of CPU at first.
set -eu
built=$(realpath -m "$1")
export GOFLAGS="-mod=mod" CGO_ENABLED=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
# Its go.mod has replacements, with which Go installs nothing: the same versions, from a module of our own.
module=github.com/jaegertracing/jaeger version=v1.76.0
go mod download "$module@$version"
sources=$(go list -m -f '{{.Dir}}' "$module@$version")
sed -e 's#^module .*#module example.com/jaeger#' -e '/^toolchain /d' "$sources/go.mod" > go.mod
printf '\nrequire %s %s\n' "$module" "$version" >> go.mod
cp "$sources/go.sum" go.sum
chmod u+w go.mod go.sum
go build -trimpath -ldflags '-s -w' -o "$built" "$module/cmd/jaeger"
