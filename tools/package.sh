#!/usr/bin/env bash
# Packs the command that `make build` has built and the libraries of tools/verbs.sh as a Debian package:
# target/package/weft_VERSION_ARCH.deb.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v dh >/dev/null; then
    echo "package.sh: debhelper is missing: apt-get install debhelper" >&2
    exit 1
fi
weft=target/release/weft
if [[ ! -x $weft ]]; then
    echo "package.sh: there is no $weft: make build" >&2
    exit 1
fi
version=$("$weft" --version | cut -d' ' -f2)
out=target/package tree=target/package/weft
rm -rf "$out"
mkdir -p "$tree"/{man,completions,verbs}
cp -r packaging/debian "$tree/debian"
cp -r docs examples "$weft" "$tree"
cp -d "$(tools/verbs.sh | tail -1)"/*.so.1 "$tree/verbs"
"$weft" man --out "$tree/man"
"$weft" completions bash >"$tree/completions/weft"
"$weft" completions fish >"$tree/completions/weft.fish"
"$weft" completions zsh >"$tree/completions/_weft"
# The date of the last commit, so that one commit gives one package.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
cat >"$tree/debian/changelog" <<CHANGELOG
weft ($version) unstable; urgency=medium

  * What has changed is in CHANGELOG.md of the source.

 -- The Weft developers <weft@localhost>  $(date -R -d "@$SOURCE_DATE_EPOCH")
CHANGELOG
(cd "$tree" && debian/rules binary) >"$out/log" 2>&1 || { tail -20 "$out/log" >&2; exit 1; }
ls "$out"/*.deb
