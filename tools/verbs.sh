#!/usr/bin/env bash
# Builds libibverbs.so.1 and librdmacm.so.1 as `weft run` puts them before a program: tools/verbs.sh [release|debug].
# rustc's own list of exports has no room for symbol versions, so the linker makes the shared library of a static one.
set -euo pipefail
cd "$(dirname "$0")/.."
profile=${1:-release}
case $profile in
    release) flags=(--release) ;;
    debug) flags=() ;;
    *) echo "usage: tools/verbs.sh [release|debug]" >&2; exit 2 ;;
esac
cargo build --locked -p weft-ibverbs "${flags[@]}"
built=${CARGO_TARGET_DIR:-target}/$profile
out=$built/verbs
mkdir -p "$out"
${CC:-cc} -shared -o "$out/libibverbs.so.1.new" -Wl,-soname,libibverbs.so.1 \
    -Wl,--version-script,crates/doors/ibverbs/versions.map -Wl,--gc-sections -Wl,-z,relro,-z,now -Wl,--no-undefined \
    -Wl,--whole-archive "$built/libweft_ibverbs.a" -Wl,--no-whole-archive -lgcc_s -lpthread -ldl -lm
mv "$out/libibverbs.so.1.new" "$out/libibverbs.so.1"
# One object with two names: programs that load both get one device.
ln -sf libibverbs.so.1 "$out/librdmacm.so.1"
echo "$out"
