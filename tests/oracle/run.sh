#!/usr/bin/env bash
# Has scapy, and tshark where there is one, read what Weft writes, and Prometheus's parser the metrics of a node.
# Needs the virtual environment of requirements.txt in .venv; `make oracle` sets it up.
set -euo pipefail
cd "$(dirname "$0")/../.."

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT

# As the tests have built it: nothing is compiled a second time.
"${CARGO:-cargo}" build --quiet --locked --workspace --all-features --example sample_capture --example psp_frames
"${CARGO_TARGET_DIR:-target}/debug/examples/sample_capture" "$directory/sample.pcapng"
.venv/bin/python tests/oracle/check_wire.py "$directory/sample.pcapng"

# The check is worth something only if it fails: one flipped bit in the last frame, and a cut file.
.venv/bin/python - "$directory" <<'PYTHON'
import pathlib
import subprocess
import sys

directory = pathlib.Path(sys.argv[1])
whole = (directory / "sample.pcapng").read_bytes()
flipped = bytearray(whole)
flipped[-40] ^= 1  # behind a frame's end stand its flags, the end of options and the block's length: 16 bytes
for name, content, status in [("flipped", flipped, 1), ("cut", whole[:-1], 2)]:
    path = directory / f"{name}.pcapng"
    path.write_bytes(content)
    check = subprocess.run([sys.executable, "tests/oracle/check_wire.py", path], capture_output=True, text=True)
    if check.returncode != status:
        sys.exit(f"the check of the {name} capture ended with {check.returncode}, not {status}:\n{check.stderr}")
print("a flipped bit and a cut file are found")
PYTHON

.venv/bin/python tests/oracle/check_psp.py "${CARGO_TARGET_DIR:-target}/debug/examples/psp_frames"
.venv/bin/python tests/oracle/check_metrics.py "${WEFT:-target/release/weft}"
