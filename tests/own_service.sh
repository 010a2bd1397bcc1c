#!/usr/bin/env bash
# Services that `weft service new` writes pass the suite: in a copy of the tree, in Rust, and with --gates in both
# halves, which takes minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

weft=$(realpath "${WEFT:-target/release/weft}")
[[ -x $weft ]] || { echo "tests/own_service.sh: $weft is not there; run make build" >&2; exit 2; }
root=$PWD
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git ls-files --cached --others --exclude-standard -z | tar --create --null --files-from - | tar --extract -C "$copy"
ln -s "$root/.venv" "$copy/.venv"
cd "$copy"

"$weft" service new shift --map
"$weft" service new equal_bytes --tap
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target/own_service}
cargo fmt --package weft-service --package weft-conformance -- --check
cargo clippy --locked --package weft-service --all-targets -- --deny warnings
cargo test --quiet --locked --package weft-service --lib services::
cargo test --quiet --locked --package weft-service --test tests suite::
if [[ ${1-} == --gates ]]; then
    git init --quiet && git add rtl weft.core && tools/lint_rtl.sh --fix && tools/lint_rtl.sh
    .venv/bin/python -m pytest --quiet rtl/services/test_services.py rtl/services/test_service_port.py
    cargo test --locked --package weft-conformance --all-features --test tests services::
fi
