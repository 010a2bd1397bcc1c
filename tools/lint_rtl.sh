#!/usr/bin/env bash
# Checks the gateware: verible (format and lint rules), Verilator's lint with warnings as errors, and elaboration by
# yosys. With --fix, verible reformats the files.
set -euo pipefail
cd "$(dirname "$0")/.."

mapfile -t sources < <(grep -v -e '^//' -e '^$' rtl/weft.f | sed 's,^,rtl/,')
mapfile -t own < <(git ls-files 'rtl/*.sv' | grep -v /generated/)

format=(.venv/bin/verible-verilog-format --column_limit 120
    --formal_parameters_indentation=indent --named_parameter_indentation=indent
    --named_port_indentation=indent --port_declarations_indentation=indent)
if [[ ${1:-} == --fix ]]; then
    "${format[@]}" --inplace "${own[@]}"
else
    "${format[@]}" --verify --inplace "${own[@]}" || {
        echo "the format differs: run tools/lint_rtl.sh --fix" >&2
        exit 1
    }
fi

.venv/bin/verible-verilog-lint --rules_config rtl/verible.rules "${own[@]}"

# Every source file must be in the file list.
missing=$(comm -23 <(git ls-files 'rtl/*.sv' | grep -v -e /formal/ -e /testing/ | sort) <(printf '%s\n' "${sources[@]}" | sort))
[[ -z $missing ]] || { echo "not in rtl/weft.f: $missing" >&2; exit 1; }

# The FuseSoC core must list the same files in the same order.
diff <(sed -n 's/^      - \(rtl\/.*\.sv\)$/\1/p' weft.core) <(printf '%s\n' "${sources[@]}") || {
    echo "weft.core and rtl/weft.f differ" >&2
    exit 1
}

# The card with and without PSP, RoCE alone with and without services, and the engines and services that are not part
# of the card.
for top in weft_nic weft_nic_psp roce_top roce_top:Services=1 rounds rounds_all_reduce services; do
    IFS=: read -r module parameter <<<"$top"
    .venv/bin/verilator --lint-only -Wall ${parameter:+"-G$parameter"} --top-module "$module" rtl/verilator.vlt "${sources[@]}"
    echo "verilator: no warnings in $top"

    .venv/bin/yosys -q -p "read_slang --threads 1 ${parameter:+-G $parameter} --top $module ${sources[*]}; hierarchy -check"
    echo "yosys: $top elaborated"
done

# The data types, and what holds them for a simulator: it shows their states, which yosys does not elaborate.
.venv/bin/verilator --lint-only -Wall --top-module rdt_types rtl/verilator.vlt "${sources[@]}"
echo "verilator: no warnings in rdt_types"
