#!/usr/bin/env python3
"""Measures two builds of weft in alternation: compare_builds.py BEFORE [AFTER].

Each is a commit, which is built in a separate worktree under target/compare, or an executable. In each round both builds
run one after the other: replicated writes of 64 bytes over sockets on three nodes with 1, 16 and 256 clients, and with 1
client while a busy loop runs on every core. The output shows the medians, and AFTER as a multiple of BEFORE. Other load
on the machine affects both builds, so the ratio is more reliable than the absolute figures.
"""

import argparse
import json
import multiprocessing
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CASES = [("1 client", 1, False), ("16 clients", 16, False), ("256 clients", 256, False), ("1 client, crowded", 1, True)]


def build(name):
    """The executable of a commit; `name` itself if it is an executable."""
    if os.access(name, os.X_OK) and pathlib.Path(name).is_file():
        return pathlib.Path(name).resolve()
    commit = subprocess.check_output(["git", "rev-parse", "--short", f"{name}^{{commit}}"], cwd=ROOT, text=True).strip()
    tree = ROOT / "target" / "compare" / commit
    weft = tree / "target" / "release" / "weft"
    if not weft.exists():
        if not tree.exists():
            subprocess.run(["git", "worktree", "add", "--quiet", "--detach", tree, commit], cwd=ROOT, check=True)
        cargo = os.environ.get("CARGO", "cargo")
        subprocess.run([cargo, "build", "--release", "--locked", "--package", "weft-cli"], cwd=tree, check=True)
    return weft


def compute():
    while True:
        pass


def measure(weft, clients, seconds):
    options = ["--world", "net", "--nodes", "3", "--workload", "put", "--value-bytes", "64"]
    command = [weft, "bench", "kv", *options, "--clients", str(clients), "--seconds", str(seconds), "--json", "-"]
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if run.returncode != 0:
        sys.exit(f"compare_builds.py: {weft}: {run.stderr.strip()}")
    result = json.loads(run.stdout)
    return {"writes/s": result["throughput_ops_per_s"], "p99 us": result["p99_ns"] / 1e3}


def compare(builds, clients, crowded, rounds, seconds):
    """The figures of both builds, in the order of the rounds."""
    others = [multiprocessing.Process(target=compute, daemon=True) for _ in range(os.cpu_count() if crowded else 0)]
    for other in others:
        other.start()
    try:
        found = [[], []]
        for _ in range(rounds):
            for runs, weft in zip(found, builds):
                runs.append(measure(weft, clients, seconds))
        return found
    finally:
        for other in others:
            other.terminate()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", help="a commit or an executable")
    parser.add_argument("after", nargs="?", default="HEAD", help="the same, HEAD unless told")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    arguments = parser.parse_args()
    builds = [build(arguments.before), build(arguments.after)]
    print(f"{'':18} {'':9} {'before':>12} {'after':>12} {'after/before':>13}")
    for name, clients, crowded in CASES:
        found = compare(builds, clients, crowded, arguments.rounds, arguments.seconds)
        for figure in found[0][0]:
            before, after = (statistics.median(run[figure] for run in runs) for runs in found)
            print(f"{name:18} {figure:9} {before:12,.0f} {after:12,.0f} {after / before:13.2f}", flush=True)


if __name__ == "__main__":
    main()
