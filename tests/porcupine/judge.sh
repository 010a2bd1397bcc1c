#!/usr/bin/env bash
# judge.sh ARGUMENT...: runs Porcupine, a checker of linearizability that is not ours, on histories (see main.go).
# Ends with 77 where Go, or Porcupine itself, cannot be had.
set -euo pipefail
cd "$(dirname "$0")"
judge=../../target/porcupine/judge
command -v go >/dev/null || {
    echo "skipped: Porcupine needs Go 1.22 or later (https://go.dev/doc/install, or apt-get install golang)" >&2
    exit 77
}
said=$(go mod download 2>&1) || {
    echo "skipped: Porcupine cannot be downloaded: $said" >&2
    exit 77
}
mkdir -p ../../target/porcupine
GOFLAGS=-mod=readonly go build -o "$judge" .
exec "$judge" "$@"
