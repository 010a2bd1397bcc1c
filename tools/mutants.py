#!/usr/bin/env python3
"""Mutation testing: makes a random sample of small changes to the code, each of which some test should detect.

    tools/mutants.py [--count N] [--skip N] [--seed S] [--package P]... [--only TEXT] [--also P]... [--out FILE]

cargo-mutants (`cargo install --locked cargo-mutants`) lists the possible changes. This script draws a sample of them and
makes each change separately in a copy of the last commit, `target/mutants`. There it runs the tests of the changed
package, then those of the packages in `--also`. The seed determines the sample; a smaller sample is a prefix of a larger
one. Code of planted bugs is left out, because tests run without it. Each change gives a line of JSON. The exit status is
1 if a change was missed.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
COPY = ROOT / "target" / "mutants"
PACKAGES = ["node", "cluster", "check", "rdma", "kv", "lock", "rdt", "rounds", "smr", "txn"]
# A test that does not end within this time has detected the change.
SECONDS = 300


def listed(packages):
    """All possible changes to the packages, in an order that depends only on the packages."""
    command = ["cargo", "mutants", "--list", "--json"]
    for package in packages:
        command += ["--package", f"weft-{package}"]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout)
    return sorted((m for m in found if "planted" not in m["diff"]), key=lambda m: m["name"])


def copied():
    """Checks out the last commit in a separate clone, whose build directory is kept."""
    git = ["git", "-C", COPY]
    if not COPY.exists():
        subprocess.run(["git", "clone", "--quiet", "--shared", "--no-checkout", ROOT, COPY], check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], check=True, capture_output=True, text=True, cwd=ROOT)
    subprocess.run([*git, "fetch", "--quiet", "origin", head.stdout.strip()], check=True)
    subprocess.run([*git, "checkout", "--quiet", "--force", "--detach", head.stdout.strip()], check=True)


def run(*arguments):
    """Runs cargo in the copy. Returns its exit status, or `None` if it was stopped."""
    environment = os.environ | {"CARGO_TARGET_DIR": str(COPY / "target"), "CARGO_INCREMENTAL": "1"}
    process = subprocess.Popen(
        ["cargo", *arguments, "--quiet", "--locked"],
        cwd=COPY,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return process.wait(SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.wait()
        return None


def judged(mutant, also):
    """The verdict on a change: `unviable`, `caught`, `caught by P`, `timeout` or `missed`."""
    path = COPY / mutant["file"]
    subprocess.run(["patch", "--silent", path], input=mutant["diff"], text=True, check=True)
    try:
        if run("build", "--package", mutant["package"], "--tests") != 0:
            return "unviable"
        for package in [mutant["package"], *(f"weft-{package}" for package in also)]:
            status = run("test", "--package", package)
            if status is None:
                return "timeout"
            if status != 0:
                return "caught" if package == mutant["package"] else f"caught by {package}"
        return "missed"
    finally:
        subprocess.run(["git", "checkout", "--quiet", "--", mutant["file"]], check=True, cwd=COPY)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200, help="how many (200)")
    parser.add_argument("--skip", type=int, default=0, help="how many of these, the first, were tried before (0)")
    parser.add_argument("--seed", type=int, default=1, help="which sample (1)")
    parser.add_argument("--package", action="append", help=f"without `weft-`; {', '.join(PACKAGES)} if none is given")
    parser.add_argument("--only", default="", help="what the name of a change contains: a file, a function")
    parser.add_argument("--also", action="append", default=[], help="package whose tests may notice a change, too")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "target" / "mutants.jsonl")
    arguments = parser.parse_args()
    if min(arguments.count, arguments.skip) < 0:
        parser.error("--count and --skip are at least 0")
    if subprocess.run(["cargo", "mutants", "--version"], capture_output=True).returncode != 0:
        print("mutants: cargo-mutants is not installed: cargo install --locked cargo-mutants", file=sys.stderr)
        sys.exit(2)
    packages = arguments.package or PACKAGES
    mutants = [mutant for mutant in listed(packages) if arguments.only in mutant["name"]]
    sample = random.Random(arguments.seed).sample(mutants, min(arguments.count, len(mutants)))[arguments.skip :]
    print(f"{len(sample)} of {len(mutants)} changes of {', '.join(packages)}, seed {arguments.seed}", flush=True)
    copied()
    outcomes = collections.Counter()
    with arguments.out.open("w") as out:
        for mutant in sample:
            began = time.monotonic()
            outcome = judged(mutant, arguments.also)
            seconds = round(time.monotonic() - began)
            outcomes[outcome] += 1
            print(json.dumps({"outcome": outcome, "seconds": seconds, "name": mutant["name"]}), file=out, flush=True)
            if outcome == "missed":
                print(f"missed: {mutant['name']}\n{mutant['diff']}", flush=True)
    print(", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items())))
    sys.exit(1 if outcomes["missed"] else 0)


if __name__ == "__main__":
    main()
