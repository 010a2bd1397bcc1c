#!/usr/bin/env bash
# Generates the files that derive from rtl/nic/registers.rdl and rtl/nic/events_pkg.sv: SystemVerilog and the names of
# the counters (rtl/nic/generated), a C header (rtl/include), and the register map in HTML (target/registers).
#
#   tools/registers.sh           generates them
#   tools/registers.sh --check   fails if the checked-in files are out of date
set -euo pipefail
cd "$(dirname "$0")/.."

rdl=rtl/nic/registers.rdl
peakrdl=.venv/bin/peakrdl
generated=rtl/nic/generated
header=rtl/include/weft_registers.h

make_all() { # into $1
    mkdir -p "$1/$generated" "$1/$(dirname $header)"
    "$peakrdl" regblock "$rdl" -o "$1/$generated" --cpuif axi4-lite-flat --default-reset rst_n --addr-width 12 \
        --err-if-bad-addr
    # Verilator treats a struct as one variable, and several processes drive its members.
    sed -i '1i // verilator lint_off MULTIDRIVEN' "$1/$generated/weft_registers.sv"
    "$peakrdl" c-header "$rdl" -o "$1/$header"
    .venv/bin/python tools/counters.py > "$1/$generated/counters.json"
}

case "${1:-}" in
--check)
    fresh=$(mktemp -d)
    trap 'rm -rf "$fresh"' EXIT
    make_all "$fresh"
    diff -ru "$fresh/$generated" "$generated" && diff -u "$fresh/$header" "$header" || {
        echo "tools/registers.sh: what is checked in is stale: run tools/registers.sh" >&2
        exit 1
    }
    ;;
"")
    make_all .
    rm -rf target/registers
    "$peakrdl" html "$rdl" -o target/registers
    ;;
*)
    echo "usage: tools/registers.sh [--check]" >&2
    exit 2
    ;;
esac
