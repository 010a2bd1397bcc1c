#!/usr/bin/env python3
"""Measures replicated 64-byte writes of Weft, Redis and etcd in turn, on this machine.

All systems run on loopback with three replicas and keep nothing on disk. Each round measures every
system once, so that a drift of the machine's speed affects all systems equally. The table has medians and ranges over
the rounds; each ratio is the median of the rounds' ratios.

Weft's clients share a process and its sockets, so that a datagram carries requests of many clients. For a fair
comparison, two more rows have similar clients: Redis with a few connections that each send many writes before they
wait, and Weft with a process and a socket for each client.

Usage: compare.py [--rounds N] [--seconds S] [--json FILE]
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
WEFT = ROOT / "target" / "release" / "weft"
PEERS = ROOT / "peers" / "target" / "release" / "weft-peers"


def weft(clients, seconds, processes=1):
    command = [WEFT, "bench", "kv", "--world", "net", "--nodes", "3", "--workload", "put", "--value-bytes", "64"]
    command += ["--processes", str(processes)]
    return command + ["--records", "10000", "--clients", str(clients), "--seconds", str(seconds), "--json", "-"]


def peer(system, clients, seconds, *more):
    command = [PEERS, system, "--clients", str(clients), "--value-bytes", "64", "--records", "10000", *more]
    return command + ["--seconds", str(seconds), "--json", "-"]


def rows(seconds):
    """For each row of the table: its name, its command, and the rows that it is compared with."""
    return [
        ("redis, 1 client", peer("redis", 1, seconds), []),
        ("weft, 1 client", weft(1, seconds), ["redis, 1 client"]),
        ("redis, 16 clients", peer("redis", 16, seconds), []),
        ("weft, 16 processes", weft(16, seconds, processes=16), ["redis, 16 clients"]),
        ("redis, 256 clients", peer("redis", 256, seconds), []),
        ("redis, 4 x 64 in a pipeline", peer("redis", 4, seconds, "--pipeline", "64"), []),
        ("weft, 256 clients", weft(256, seconds), ["redis, 256 clients", "redis, 4 x 64 in a pipeline"]),
        ("etcd, 1000 clients", peer("etcd", 1000, seconds), []),
        ("weft, 1000 clients", weft(1000, seconds), ["etcd, 1000 clients"]),
    ]


def run(command):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"compare: {' '.join(map(str, command))} failed: {result.stderr.strip() or result.stdout.strip()}")
    return json.loads(result.stdout)


def spread(values, scale=1.0):
    median = statistics.median(values) / scale
    return f"{median:,.0f} [{min(values) / scale:,.0f}-{max(values) / scale:,.0f}]"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    if options.rounds < 1 or options.seconds < 1:
        parser.error("rounds and seconds are at least 1")

    plan = rows(options.seconds)
    results = {name: [] for name, _, _ in plan}
    for number in range(options.rounds):
        for name, command, _ in plan:
            print(f"\rround {number + 1} of {options.rounds}: {name:30}", end="", file=sys.stderr, flush=True)
            results[name].append(run(command))
    print(f"\r{'':60}\r", end="", file=sys.stderr)

    headings = ["system", "writes/s", "p50 (us)", "p99 (us)", "throughput ratio", "checked"]
    table = [headings]
    for name, _, against in plan:
        runs = results[name]
        column = lambda key: [one[key] for one in runs]
        ratios = []
        for other in against:
            pairs = zip(column("throughput_ops_per_s"), [one["throughput_ops_per_s"] for one in results[other]])
            ratios.append(f"{statistics.median(ours / theirs for ours, theirs in pairs):.1f}x {other}")
        checked = sorted({one.get("checked", "") for one in runs})
        table.append([
            name,
            spread(column("throughput_ops_per_s")),
            spread(column("p50_ns"), 1e3),
            spread(column("p99_ns"), 1e3),
            "; ".join(ratios),
            ", ".join(checked),
        ])
    widths = [max(len(row[index]) for row in table) for index in range(len(headings))]
    for index, row in enumerate(table):
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |")
        if index == 0:
            print("|" + "|".join("-" * (width + 2) for width in widths) + "|")
    versions = {one["version"] for runs in results.values() for one in runs if "version" in one}
    print(f"\nmedian [range] of {options.rounds} rounds of {options.seconds} s each; peers: {', '.join(sorted(versions))}")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
