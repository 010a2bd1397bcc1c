#!/usr/bin/env python3
"""Counts what clients of Redis with Sentinel and of Weft lose when servers fail, with three replicas in memory each.

Eight clients write one key after the other, each key once, with SET over Redis's protocol. In each round the server
that takes writes fails (Redis: the primary; Weft: each node in turn), in one of three ways:

- `kill`: SIGKILL, and the server is started again after 8 s.
- `restart`: SIGKILL, and the server is started again at once, as a service manager does.
- `pause`: SIGSTOP for 8 s, then SIGCONT.

After each failure all three servers come back before the next one. At the end all keys are read: a write that was
acknowledged and is not there counts as lost. Silence is the longest time without an acknowledgement to any client from
a failure until all is well again.

Redis is measured three times: a write is acknowledged by the primary alone, or when WAIT says that one or both replicas
have it. Its three Sentinels take a server for dead after a second; clients ask them for the primary. Weft has the
default lease of a second and three keepers of its membership, as many as there are Sentinels; clients go to any node.
No write is on disk.

Usage: compare_failover.py [--rounds N] [--seed N] [--json FILE]
"""

import argparse
import json
import pathlib
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from compare_redis import WEFT, free_ports, only_store

CLIENTS = 8
PAUSE_S = 0.005
PATIENCE_S = 1
DOWN_S = 8
HEAL_S = 60
FAULTS = ["kill", "restart", "pause"]


class Connection:
    """A connection that sends one command and reads its reply."""

    def __init__(self, address):
        self.socket = socket.create_connection(address, timeout=PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")

    def ask(self, *words):
        parts = [str(word).encode() for word in words]
        self.socket.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts))
        return self.reply()

    def reply(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise OSError("the server has closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"$":
            length = int(rest)
            return None if length < 0 else self.file.read(length + 2)[:-2]
        if kind == b"*":
            return None if int(rest) < 0 else [self.reply() for _ in range(int(rest))]
        if kind == b"-":
            raise OSError(rest.decode())
        return int(rest) if kind == b":" else rest

    def close(self):
        self.file.close()
        self.socket.close()


def ask_once(address, *words):
    connection = Connection(address)
    try:
        return connection.ask(*words)
    finally:
        connection.close()


class Cluster:
    """Processes that are killed and started again."""

    def __init__(self, folder):
        self.folder, self.running = folder, {}

    def start(self, name, command):
        log = open(self.folder / f"{name}.log", "a")
        self.running[name] = (subprocess.Popen([str(part) for part in command], stdout=log, stderr=log), command)

    def signal(self, name, number):
        self.running[name][0].send_signal(number)

    def restart(self, name):
        process, command = self.running[name]
        process.wait()
        self.start(name, command)

    def heal(self):
        end = time.monotonic() + HEAL_S
        while not self.is_well():
            if time.monotonic() > end:
                last = [f"{name}: {(self.folder / f'{name}.log').read_text()[-500:]}" for name in self.running]
                sys.exit("\n".join([f"compare: {self.name} does not recover within {HEAL_S} s", *last]))
            time.sleep(0.2)

    def stop(self):
        for process, _ in self.running.values():
            process.kill()
            process.wait()


class Redis(Cluster):
    """A primary, two replicas and three Sentinels."""

    def __init__(self, folder, wait):
        super().__init__(folder)
        self.wait, self.name = wait, f"Redis, WAIT {wait}" if wait else "Redis, no WAIT"
        ports = free_ports(6)
        self.servers = {f"server{index}": ("127.0.0.1", port) for index, port in enumerate(ports[:3])}
        self.sentinels = [("127.0.0.1", port) for port in ports[3:]]
        for index, port in enumerate(ports[:3]):
            more = ["--replicaof", "127.0.0.1", ports[0]] if index else []
            self.start(f"server{index}", ["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly",
                                          "no", "--repl-diskless-sync-delay", "0", "--dir", folder, *more])  # fmt: skip
        for index, port in enumerate(ports[3:]):
            file = folder / f"sentinel{index}.conf"
            file.write_text(
                f"port {port}\nbind 127.0.0.1\ndir {folder}\nsentinel monitor all 127.0.0.1 {ports[0]} 2\n"
                "sentinel down-after-milliseconds all 1000\nsentinel failover-timeout all 10000\n"
            )
            self.start(f"sentinel{index}", ["redis-server", file, "--sentinel"])

    def address(self, _attempt):
        for sentinel in random.sample(self.sentinels, 3):
            try:
                host, port = ask_once(sentinel, "SENTINEL", "get-master-addr-by-name", "all")
                return host.decode(), int(port)
            except (OSError, TypeError):
                continue
        raise OSError("no Sentinel names a primary")

    def is_well(self):
        try:
            text = ask_once(self.address(0), "INFO", "replication").decode()
            views = {ask_once(sentinel, "SENTINEL", "get-master-addr-by-name", "all")[1] for sentinel in self.sentinels}
        except (OSError, TypeError):
            return False
        return "role:master" in text and text.count("state=online") == 2 and len(views) == 1

    def victim(self, _number):
        primary = self.address(0)
        return next(name for name, address in self.servers.items() if address == primary)

    def acknowledges(self, connection, key):
        connection.ask("SET", key, "x" * 64)
        return self.wait == 0 or connection.ask("WAIT", self.wait, PATIENCE_S * 500) >= self.wait


class Weft(Cluster):
    """Three nodes, each of which also serves Redis's protocol."""

    name = "Weft"

    def __init__(self, folder):
        super().__init__(folder)
        subprocess.run([WEFT, "init", "--redis", "--keepers", "--nodes", "3", "--dir", folder], check=True, capture_output=True)
        self.config = folder / "weft.toml"
        hosts = only_store(self.config)
        self.doors = [(host, 6379) for host in hosts]
        for node in range(3):
            self.start(f"node{node}", [WEFT, "start", "--config", self.config, "--node", node])

    def address(self, attempt):
        return self.doors[attempt % 3]

    def is_well(self):
        command = [WEFT, "status", "--config", self.config]
        return subprocess.run(command, capture_output=True).returncode == 0

    def victim(self, number):
        return f"node{number % 3}"

    def acknowledges(self, connection, key):
        connection.ask("SET", key, "x" * 64)
        return True


class Writer(threading.Thread):
    """A client: writes key after key, to the server that its cluster names."""

    def __init__(self, cluster, number, until):
        super().__init__(daemon=True)
        self.cluster, self.number, self.until = cluster, number, until
        self.acknowledged, self.refused = [], 0

    def run(self):
        connection, attempt, count = None, self.number, 0
        while not self.until.is_set():
            key = f"{self.number}:{count}"
            count += 1
            try:
                connection = connection or Connection(self.cluster.address(attempt))
                if self.cluster.acknowledges(connection, key):
                    self.acknowledged.append((time.monotonic(), key))
                else:
                    self.refused += 1
            except OSError:
                self.refused += 1
                if connection:
                    connection.close()
                connection, attempt = None, attempt + 1
                time.sleep(0.02)
            time.sleep(PAUSE_S)
        if connection:
            connection.close()


def fail(cluster, fault, number):
    """Makes a server fail and come back, and waits until all is well. Returns when it failed, and when all was well."""
    victim = cluster.victim(number)
    failed = time.monotonic()
    cluster.signal(victim, signal.SIGSTOP if fault == "pause" else signal.SIGKILL)
    if fault != "restart":
        time.sleep(DOWN_S)
    if fault == "pause":
        cluster.signal(victim, signal.SIGCONT)
    else:
        cluster.restart(victim)
    cluster.heal()
    return failed, time.monotonic()


def silence(failed, well, times):
    """The longest time without an acknowledgement from a failure until all was well again."""
    gaps = (later - earlier for earlier, later in zip(times, times[1:]) if later > failed and earlier < well)
    return max(gaps, default=well - failed)


def measured(cluster, fault, rounds):
    cluster.heal()
    over = threading.Event()
    writers = [Writer(cluster, number, over) for number in range(CLIENTS)]
    for writer in writers:
        writer.start()
    failures = []
    for number in range(rounds):
        time.sleep(1)
        failures.append(fail(cluster, fault, number))
    time.sleep(1)
    over.set()
    for writer in writers:
        writer.join()
    times = sorted(at for writer in writers for at, _ in writer.acknowledged)
    keys = [key for writer in writers for _, key in writer.acknowledged]
    connection = Connection(cluster.address(0))
    lost = sum(connection.ask("GET", key) is None for key in keys)
    connection.close()
    return {
        "system": cluster.name,
        "fault": fault,
        "acknowledged": len(keys),
        "not_acknowledged": sum(writer.refused for writer in writers),
        "lost": lost,
        "silence_s": [silence(*failure, times) for failure in failures],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("there is at least one round")
    if not shutil.which("redis-server"):
        sys.exit("compare: redis-server is missing: install Debian's redis-server")
    random.seed(options.seed)
    makers = [lambda folder, wait=wait: Redis(folder, wait) for wait in (0, 1, 2)] + [Weft]
    rows = []
    for fault in FAULTS:
        for make in makers:
            with tempfile.TemporaryDirectory() as name:
                cluster = make(pathlib.Path(name))
                print(f"\r{fault}: {cluster.name:20}", end="", file=sys.stderr, flush=True)
                try:
                    rows.append(measured(cluster, fault, options.rounds))
                finally:
                    cluster.stop()
    print(f"\r{'':30}\r", end="", file=sys.stderr)
    print(f"| fault, {options.rounds} times | system | acknowledged | of these lost | longest silence, s: median [range] |")
    print("|---|---|---:|---:|---|")
    for row in rows:
        seconds = row["silence_s"]
        spread = f"{statistics.median(seconds):.2f} [{min(seconds):.2f}-{max(seconds):.2f}]"
        print(f"| {row['fault']} | {row['system']} | {row['acknowledged']:,} | {row['lost']:,} | {spread} |")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
