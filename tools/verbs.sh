#!/usr/bin/env bash
# Builds libibverbs.so.1 and librdmacm.so.1, which `weft run` preloads: tools/verbs.sh [release|debug]. rustc's list
# of exported symbols cannot have symbol versions, so the linker makes the shared library from a static one.
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
# Both names refer to one library, so a program that loads both has one device.
ln -sf libibverbs.so.1 "$out/librdmacm.so.1"
echo "$out"
