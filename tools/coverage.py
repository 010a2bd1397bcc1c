#!/usr/bin/env python3
"""How many lines of the Rust code the tests execute, for each crate.

    tools/coverage.py [--package P]... [--files] [--json]

Runs the tests of all packages but `weft-conformance`, without the gateware, or of the given ones (without `weft-`), in
a build with LLVM's counters (`target/llvm-cov-target`). A line counts if any of these tests executed it. Files of
tests, examples and benchmarks do not count; unit tests beside the code do.

cargo-llvm-cov is installed into `target/tools` if it is missing. The run is skipped if that fails, or if the toolchain
has no llvm-tools. If a test fails there is no table, and the exit status is 1.
"""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
TOOLS = ROOT / "target/tools"
REPORT = ROOT / "target/coverage.json"
VERSION = "0.6.21"


def skip(reason):
    print(f"coverage: skipped: {reason}")
    sys.exit(0)


def install():
    """Makes `cargo llvm-cov` available."""
    if not (TOOLS / "bin/cargo-llvm-cov").exists():
        command = ["cargo", "install", "--quiet", "--locked", "--root", TOOLS, f"cargo-llvm-cov@{VERSION}"]
        if subprocess.run(command, cwd=ROOT, stdout=sys.stderr).returncode:
            skip(f"cargo-llvm-cov {VERSION} cannot be installed, see above")
    sysroot = subprocess.run(["rustc", "--print", "sysroot"], cwd=ROOT, check=True, capture_output=True, text=True)
    if not any(pathlib.Path(sysroot.stdout.strip()).glob("lib/rustlib/*/bin/llvm-cov")):
        skip("the toolchain has no llvm-cov: rustup component add llvm-tools")


def row(file, by_file):
    """The row of a source: itself, or its crate."""
    parts = pathlib.Path(file).relative_to(ROOT).parts
    return "/".join(parts if by_file else parts[:parts.index("src")] if "src" in parts else parts[:2])


def percent(covered, total):
    return round(100 * covered / total, 1) if total else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--package", action="append", default=[], help="without `weft-`; all if none is given")
    parser.add_argument("--files", action="store_true", help="a row for each file")
    parser.add_argument("--json", action="store_true", help="as JSON")
    arguments = parser.parse_args()
    install()
    packages = [option for package in arguments.package for option in ("--package", f"weft-{package}")]
    command = ["cargo", "llvm-cov", "--locked", "--json", "--summary-only",
               "--output-path", REPORT, *(packages or ["--workspace", "--exclude", "weft-conformance"])]
    REPORT.unlink(missing_ok=True)
    environment = os.environ | {"PATH": f"{TOOLS / 'bin'}:{os.environ['PATH']}"}
    run = subprocess.run(command, cwd=ROOT, env=environment, stdout=sys.stderr)
    if run.returncode or not REPORT.exists():
        return 1
    rows = collections.defaultdict(lambda: [0, 0])
    for file in json.loads(REPORT.read_text())["data"][0]["files"]:
        lines = file["summary"]["lines"]
        for name in (row(file["filename"], arguments.files), "all"):
            rows[name][0] += lines["covered"]
            rows[name][1] += lines["count"]
    table = [(name, *rows[name]) for name in sorted(rows, key=lambda name: (name == "all", name))]
    if arguments.json:
        print(json.dumps({
            name: {"covered": covered, "total": total, "percent": percent(covered, total)}
            for name, covered, total in table
        }, indent=2))
    else:
        print("| crate | lines | covered |\n|---|---|---|")
        for name, covered, total in table:
            print(f"| {name} | {total:,} | {percent(covered, total)} % |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
