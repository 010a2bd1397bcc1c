#!/usr/bin/env python3
"""Measures Weft's server for Redis's protocol against Redis, each with three replicas in memory, on loopback of this machine.

Two client programs send 64-byte writes to 10,000 records. Each sends the same bytes to both systems:

- `weft-peers`, with a WAIT 2 behind each SET: a client knows of each write that all three replicas have it. So does
  memtier_benchmark with the commands SET and WAIT in turn. Redis holds up a connection until each WAIT is answered.
- `weft-peers`, with one WAIT 2 behind the last SET of a pipeline: a client knows that of the pipeline.
- `redis-benchmark`, unmodified: SETs only. Weft acknowledges when all replicas have a write, Redis when the primary
  has it: its replicas receive the write later, and the client does not wait for them.

Weft answers a WAIT at once, because each of its writes is answered only when all live replicas have it.

Each round measures both systems at every number of connections and every pipeline, one right after the other. The
table has medians and ranges over the rounds; each ratio is the median of the rounds' ratios; CPU is the processor time
of the three servers and, behind the plus sign, of the client. The environment variable WEFT names another `weft`.

Usage: compare_redis.py [--rounds N] [--seconds S] [--json FILE]
"""

import argparse
import json
import os
import pathlib
import re
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
WEFT = pathlib.Path(os.environ.get("WEFT", ROOT / "target" / "release" / "weft"))
PEERS = ROOT / "peers" / "target" / "release" / "weft-peers"
SHAPES = [(clients, pipeline) for pipeline in (1, 16) for clients in (1, 16, 256)]


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def answers(address, line, wanted):
    try:
        with socket.create_connection(address, timeout=2) as connection:
            connection.sendall(line)
            return connection.recv(100).startswith(wanted)
    except OSError:
        return False


class Servers:
    """Three server processes, and the address for clients."""

    def __init__(self, name, commands, folder, address, is_ready):
        self.name, self.address = name, address
        log = open(folder / f"{name}.log", "w")
        self.processes = [subprocess.Popen(command, stdout=log, stderr=log) for command in commands]
        end = time.monotonic() + 60
        while not answers(address, *is_ready):
            if time.monotonic() > end or any(process.poll() is not None for process in self.processes):
                self.stop()
                sys.exit(f"compare: {name} does not start: {(folder / f'{name}.log').read_text()[-500:]}")
            time.sleep(0.2)

    def cpu(self):
        """Seconds of processor time that the servers have used so far."""
        ticks = 0
        for process in self.processes:
            fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait()


def start_redis(folder):
    ports = free_ports(3)
    command = lambda port, *more: [
        "redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
        "--repl-diskless-sync-delay", "0", "--maxclients", "20000", "--dir", str(folder), *more,
    ]  # fmt: skip
    commands = [command(ports[0])] + [command(port, "--replicaof", "127.0.0.1", str(ports[0])) for port in ports[1:]]
    ready = (b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\na\r\n*3\r\n$4\r\nWAIT\r\n$1\r\n2\r\n$4\r\n1000\r\n", b"+OK\r\n:2\r\n")
    return Servers("redis", commands, folder, ("127.0.0.1", ports[0]), ready)


def only_store(config):
    """Removes all engines but the store from a configuration, because Redis is only a store. Returns the nodes' hosts."""
    text = re.sub(r"(?ms)^# [^\n]*\n\[(transactions|lock|\[object\]|\[log\])\]\n.*?(?=^\n|\Z)", "", config.read_text())
    config.write_text(text)
    return re.findall(r'(?m)^\[\[node\]\]\naddress = "([0-9.]+)"', text)


def start_weft(folder):
    subprocess.run([WEFT, "init", "--redis", "--nodes", "3", "--dir", folder], check=True, capture_output=True)
    config = folder / "weft.toml"
    address = only_store(config)[0]
    commands = [[WEFT, "start", "--config", config, "--node", str(node)] for node in range(3)]
    return Servers("weft", commands, folder, (address, 6379), (b"SET a a\r\nWAIT 2 1000\r\n", b"+OK\r\n:2\r\n"))


def peers(wait):
    def measure(servers, clients, pipeline, seconds):
        host, port = servers.address
        command = [PEERS, "resp", "--address", f"{host}:{port}", "--clients", clients, "--pipeline", pipeline]
        command += ["--wait", wait, "--seconds", seconds, "--json", "-"]
        result = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        if result.returncode != 0:
            sys.exit(f"compare: {servers.name}: {result.stderr.strip()}")
        found = json.loads(result.stdout)
        rate = found["throughput_ops_per_s"]
        # The processor time includes the warm-up of one second.
        return rate, found["p50_ns"] / 1e3, found["p99_ns"] / 1e3, rate * (seconds + 1)

    return measure


def benchmark(servers, clients, pipeline, seconds):
    host, port = servers.address
    rate = benchmark.rates.get((servers.name, clients, pipeline), 20_000)
    count = max(int(rate * seconds), 20 * clients * pipeline)
    command = ["redis-benchmark", "-h", host, "-p", port, "-t", "set", "-d", 64, "-r", 10_000, "-n", count]
    command += ["-c", clients, "-P", pipeline, "--csv"]
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    line = [line for line in result.stdout.splitlines() if line.startswith('"SET"')]
    if result.returncode != 0 or not line:
        sys.exit(f"compare: redis-benchmark on {servers.name}: {result.stderr.strip() or result.stdout.strip()}")
    # The fields are: test, rps, and the average, minimum, p50, p95, p99 and maximum latency in ms.
    fields = [float(field.strip('"')) for field in line[-1].split(",")[1:]]
    benchmark.rates[servers.name, clients, pipeline] = fields[0]
    return fields[0], fields[3] * 1e3, fields[5] * 1e3, count


benchmark.rates = {}

# For each kind of load: its name, how it is measured, and its shapes.
LOADS = [
    ("WAIT behind each SET", peers("each"), SHAPES),
    ("one WAIT a pipeline", peers("last"), [shape for shape in SHAPES if shape[1] > 1]),
    ("redis-benchmark, no WAIT", benchmark, SHAPES),
]


def client_cpu():
    """Seconds of processor time of all client programs so far: the servers have not ended and do not count."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def measured(measure, servers, shape, seconds):
    servers_before, client_before = servers.cpu(), client_cpu()
    rate, p50, p99, writes = measure(servers, *shape, seconds)
    return {
        "system": servers.name,
        "writes_per_s": rate,
        "p50_us": p50,
        "p99_us": p99,
        "servers_cpu_us": (servers.cpu() - servers_before) / writes * 1e6,
        "client_cpu_us": (client_cpu() - client_before) / writes * 1e6,
    }


def spread(values):
    return f"{statistics.median(values):,.0f} [{min(values):,.0f}-{max(values):,.0f}]"


def table_of(rows):
    yield ["load", "connections", "pipeline", "Redis, writes/s", "Weft, writes/s", "ratio", "p99 us, Redis / Weft",
           "CPU us a write, Redis / Weft"]  # fmt: skip
    for load, _, shapes in LOADS:
        for clients, pipeline in shapes:
            of_shape = [row for row in rows if (row["load"], row["connections"], row["pipeline"]) == (load, clients, pipeline)]
            redis, weft = ([row for row in of_shape if row["system"] == name] for name in ("redis", "weft"))
            column = lambda system, name: [row[name] for row in system]
            median = lambda system, name: statistics.median(column(system, name))
            ratios = [ours["writes_per_s"] / theirs["writes_per_s"] for ours, theirs in zip(weft, redis)]
            cpu = lambda system: f"{median(system, 'servers_cpu_us'):.1f} + {median(system, 'client_cpu_us'):.1f}"
            yield [load, str(clients), str(pipeline), spread(column(redis, "writes_per_s")),
                   spread(column(weft, "writes_per_s")), f"{statistics.median(ratios):.2f}",
                   f"{median(redis, 'p99_us'):,.0f} / {median(weft, 'p99_us'):,.0f}",
                   f"{cpu(redis)} / {cpu(weft)}"]  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    if options.rounds < 1 or options.seconds < 1:
        parser.error("rounds and seconds are at least 1")
    missing = [name for name in ("redis-server", "redis-benchmark") if not shutil.which(name)]
    if missing:
        sys.exit(f"compare: {', '.join(missing)} is missing: install Debian's redis-server and redis-tools")
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        systems = [start_redis(folder), start_weft(folder)]
        try:
            for number in range(1, options.rounds + 1):
                for load, measure, shapes in LOADS:
                    for shape in shapes:
                        for servers in systems:
                            what = f"round {number} of {options.rounds}: {load}, {servers.name}, {shape[0]} x {shape[1]}"
                            print(f"\r{what:70}", end="", file=sys.stderr, flush=True)
                            row = {"load": load, "connections": shape[0], "pipeline": shape[1], "round": number}
                            rows.append(row | measured(measure, servers, shape, options.seconds))
        finally:
            for servers in systems:
                servers.stop()
    print(f"\r{'':70}\r", end="", file=sys.stderr)
    table = list(table_of(rows))
    widths = [max(len(row[index]) for row in table) for index in range(len(table[0]))]
    for index, row in enumerate(table):
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |")
        if index == 0:
            print("|" + "|".join("-" * (width + 2) for width in widths) + "|")
    version = subprocess.run(["redis-server", "--version"], capture_output=True, text=True).stdout.split()[2]
    print(f"\nmedian [range] of {options.rounds} rounds of {options.seconds} s each; Redis {version}")
    if options.json:
        options.json.write_text(json.dumps({"redis": version, "seconds": options.seconds, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
