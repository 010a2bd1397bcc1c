#!/usr/bin/env bash
# Lets scapy, and tshark if it is installed, parse Weft's frames, and Prometheus's parser the metrics of a node. Needs
# the virtual environment of requirements.txt in .venv; `make oracle` sets it up.
set -euo pipefail
cd "$(dirname "$0")/../.."

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT

# With the same options as the tests, so that nothing is compiled twice.
"${CARGO:-cargo}" build --quiet --locked --workspace --all-features --example sample_capture --example psp_frames \
    --example socket_frames
"${CARGO_TARGET_DIR:-target}/debug/examples/sample_capture" "$directory/sample.pcapng"
.venv/bin/python tests/oracle/check_wire.py "$directory/sample.pcapng"

# The check must fail on a flipped bit in the last frame and on a truncated file, or it would prove nothing.
.venv/bin/python - "$directory" <<'PYTHON'
import pathlib
import subprocess
import sys

directory = pathlib.Path(sys.argv[1])
whole = (directory / "sample.pcapng").read_bytes()
flipped = bytearray(whole)
flipped[-40] ^= 1  # the last 16 bytes of a block are its flags, the end of options and its length
for name, content, status in [("flipped", flipped, 1), ("cut", whole[:-1], 2)]:
    path = directory / f"{name}.pcapng"
    path.write_bytes(content)
    check = subprocess.run([sys.executable, "tests/oracle/check_wire.py", path], capture_output=True, text=True)
    if check.returncode != status:
        sys.exit(f"the check of the {name} capture ended with {check.returncode}, not {status}:\n{check.stderr}")
print("a flipped bit and a cut file are found")
PYTHON

.venv/bin/python tests/oracle/check_psp.py "${CARGO_TARGET_DIR:-target}"/debug/examples/{psp,socket}_frames
.venv/bin/python tests/oracle/check_metrics.py "${WEFT:-target/release/weft}"
