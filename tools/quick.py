#!/usr/bin/env python3
"""The inner loop: checks the crates that have changed, without the gateware.

    tools/quick.py [--since REVISION] [CRATE...]

The crates are those given (`kv`, `node`, ...), or those with files that differ from REVISION; by default HEAD, and the
commit before it if nothing differs from HEAD. Checks, in this order: the formatting of all crates, lints of the changed
ones, that all others still compile, and the tests of the changed ones. Stops at the first failure, with exit status 1.
"""

import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Its tests compare both NICs, so they need the models of the gateware.
NEEDS_GATEWARE = "weft-conformance"


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout


def crates():
    """The directory of each crate, relative to the root, and the crate's name; the deepest directories first."""
    packages = json.loads(output("cargo", "metadata", "--no-deps", "--format-version", "1", "--locked"))["packages"]
    found = {pathlib.Path(p["manifest_path"]).parent.relative_to(ROOT).as_posix(): p["name"] for p in packages}
    return dict(sorted(found.items(), key=lambda crate: -len(crate[0])))


def changed(since, known):
    """The crates with files that differ from the revision. A change of the workspace's own manifest changes all."""
    files = output("git", "diff", "--name-only", since, "--").splitlines()
    files += output("git", "ls-files", "--others", "--exclude-standard").splitlines()
    if {"Cargo.toml", "Cargo.lock", "rust-toolchain.toml"} & set(files):
        return set(known.values())
    owners = (next((folder for folder in known if file.startswith(f"{folder}/")), None) for file in files)
    return {known[folder] for folder in owners if folder}


def run(*command):
    print("$", *command, flush=True)
    if subprocess.run(command, cwd=ROOT).returncode:
        sys.exit(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--since", metavar="REVISION")
    parser.add_argument("crate", nargs="*")
    options = parser.parse_args()
    known = crates()
    chosen = {name if name.startswith("weft-") else f"weft-{name}" for name in options.crate}
    if unknown := chosen - set(known.values()):
        parser.error(f"no crate is called {', '.join(sorted(unknown))}; the crates are the folders in crates/")
    try:
        chosen = chosen or changed(options.since or "HEAD", known) or changed(options.since or "HEAD~1", known)
    except subprocess.CalledProcessError as error:
        parser.error(error.stderr.strip())
    run("cargo", "fmt", "--all", "--check")
    if NEEDS_GATEWARE in chosen:
        print(f"{NEEDS_GATEWARE} is left out: it needs the gateware (make unit)")
    chosen = sorted(chosen - {NEEDS_GATEWARE})
    if not chosen:
        print("no crate has changed")
        return
    packages = [word for name in chosen for word in ("--package", name)]
    run("cargo", "clippy", *packages, "--all-targets", "--locked", "--quiet", "--", "--deny", "warnings")
    run("cargo", "check", "--workspace", "--exclude", NEEDS_GATEWARE, "--locked", "--quiet")
    run("cargo", "test", *packages, "--locked", "--quiet")


if __name__ == "__main__":
    main()
