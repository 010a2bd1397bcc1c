#!/usr/bin/env python3
"""Measures Smallbank as transactions of Weft and of PostgreSQL in turn, on this machine.

Weft runs three processes with three replicas of everything; a transaction is answered when all live replicas have logged
its writes, in memory or on disk; both are measured. PostgreSQL runs three processes, a primary and two streaming standbys, at SERIALIZABLE;
a transaction is one call of a PL/pgSQL function as a prepared statement, which pgbench (one thread) repeats for as long
as it fails to serialize. PostgreSQL's replication is either asynchronous, or waits for both standbys
(synchronous_commit = on: their write-ahead log is flushed); each is measured with fsync = off and on. All files are on
one disk, in /var/tmp. Everything is on loopback, and idle processes sleep. Accounts, mix, hot accounts, amounts, clients and time are the same for both
systems. Throughput counts transactions that committed or that their own rules refused, after the first half second;
latency is from the first attempt to the last answer.

Each round measures every system once, so that a drift of the machine's speed affects all systems equally. The table has
medians and ranges over the rounds; each ratio is the median of the rounds' ratios. A system that flushes its log is
compared with Weft on disk, too.

Usage: compare_transactions.py [--rounds N] [--seconds S] [--size N] [--clients N,N] [--json FILE]
"""

import argparse
import atexit
import getpass
import glob
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
from functools import partial

from compare import ROOT, WEFT, run, spread

SHARDS = 3
WARM_UP_S = 0.5
HOT_ACCESSES_PERCENT = 90
HOT_ACCOUNTS_PERCENT = 4
PORTS = [54_931, 54_932, 54_933]
FOLDER = "/var/tmp"

SCHEMA = """
CREATE TABLE savings (account int PRIMARY KEY, cents bigint NOT NULL);
CREATE TABLE checking (account int PRIMARY KEY, cents bigint NOT NULL);
INSERT INTO savings SELECT account, 1000000 + (random() * 4000000)::int FROM generate_series(0, {accounts} - 1) AS account;
INSERT INTO checking SELECT account, 1000000 + (random() * 4000000)::int FROM generate_series(0, {accounts} - 1) AS account;
CREATE FUNCTION smallbank(share int, a int, b int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    s bigint;
    c bigint;
BEGIN
    IF share <= 15 THEN -- amalgamate
        SELECT cents INTO STRICT s FROM savings WHERE account = a;
        SELECT cents INTO STRICT c FROM checking WHERE account = a;
        UPDATE savings SET cents = 0 WHERE account = a;
        UPDATE checking SET cents = 0 WHERE account = a;
        UPDATE checking SET cents = cents + s + c WHERE account = b;
    ELSIF share <= 30 THEN -- balance
        SELECT cents INTO STRICT s FROM savings WHERE account = a;
        SELECT cents INTO STRICT c FROM checking WHERE account = a;
        RETURN s + c;
    ELSIF share <= 45 THEN -- deposit-checking
        UPDATE checking SET cents = cents + 130 WHERE account = a;
    ELSIF share <= 70 THEN -- send-payment
        SELECT cents INTO STRICT c FROM checking WHERE account = a;
        IF c < 500 THEN
            RETURN -1;
        END IF;
        UPDATE checking SET cents = cents - 500 WHERE account = a;
        UPDATE checking SET cents = cents + 500 WHERE account = b;
    ELSIF share <= 85 THEN -- transact-savings
        UPDATE savings SET cents = cents + 2020 WHERE account = a;
    ELSE -- write-check
        SELECT cents INTO STRICT s FROM savings WHERE account = a;
        SELECT cents INTO STRICT c FROM checking WHERE account = a;
        UPDATE checking SET cents = cents - CASE WHEN s + c < 500 THEN 600 ELSE 500 END WHERE account = a;
    END IF;
    RETURN 0;
END $$;
VACUUM ANALYZE;
"""

CALL = """
\\set share random(1, 100)
\\set range CASE WHEN random(1, 100) <= {hot_accesses} THEN {hot} ELSE {size} END
\\set a random(0, {shards} - 1) * {size} + random(0, :range - 1)
\\set b random(0, {shards} - 1) * {size} + random(0, :range - 1)
\\set b CASE WHEN :a = :b THEN mod(:a + 1, {shards} * {size}) ELSE :b END
SELECT smallbank(:share, :a, :b);
"""

SETTINGS = """
listen_addresses = '127.0.0.1'
port = {port}
unix_socket_directories = ''
default_transaction_isolation = 'serializable'
max_wal_size = '4GB'
checkpoint_timeout = '30min'
wal_level = 'replica'
hot_standby = on
include_if_exists = 'measured.conf'
"""


def binaries():
    """The folder with PostgreSQL's programs."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"), key=lambda path: int(path.split("/")[4]))
    if not found:
        sys.exit("compare: PostgreSQL is not there; on Debian and Ubuntu: apt-get install postgresql")
    return pathlib.Path(found[-1]).parent


class Postgres:
    """A primary and two standbys."""

    def __init__(self, size):
        self.bin = binaries()
        # PostgreSQL does not run as root.
        self.prefix = ["runuser", "-u", "postgres", "--"] if getpass.getuser() == "root" else []
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="weft-postgres-", dir=FOLDER))
        atexit.register(self.stop)
        if self.prefix:
            shutil.chown(self.folder, "postgres")
        self.size = size
        self.nodes = [self.folder / name for name in ("primary", "standby1", "standby2")]
        self.program("initdb", "--no-locale", "--encoding=UTF8", "--auth=trust", "--username=postgres", "-D", self.nodes[0])
        self.configure(0)
        self.start(0)
        self.sql(SCHEMA.format(accounts=SHARDS * size))
        for index in (1, 2):
            source = f"host=127.0.0.1 port={PORTS[0]} user=postgres application_name=standby{index}"
            self.program("pg_basebackup", "-d", source, "-D", self.nodes[index], "-R", "--checkpoint=fast", "-X", "stream")
            self.configure(index)
            self.start(index)
        self.version = self.sql("SHOW server_version").strip().split()[0]

    def program(self, name, *arguments, cwd=None):
        command = [*self.prefix, str(self.bin / name), *map(str, arguments)]
        result = subprocess.run(command, capture_output=True, text=True, cwd=cwd or self.folder)
        if result.returncode != 0:
            sys.exit(f"compare: {name} failed: {result.stderr.strip() or result.stdout.strip()}")
        return result.stdout

    def write(self, path, text):
        path.write_text(text)
        if self.prefix:
            shutil.chown(path, "postgres")

    def configure(self, index):
        with open(self.nodes[index] / "postgresql.conf", "a") as file:
            file.write(SETTINGS.format(port=PORTS[index]))

    def start(self, index):
        log = self.folder / f"{self.nodes[index].name}.log"
        # The output must not be captured: the server inherits it and keeps it open.
        command = [*self.prefix, str(self.bin / "pg_ctl"), "start", "-w", "-D", str(self.nodes[index]), "-l", str(log)]
        if subprocess.run(command, stdout=subprocess.DEVNULL, cwd=self.folder).returncode != 0:
            sys.exit(f"compare: PostgreSQL does not start: {log.read_text()}")

    def sql(self, text):
        path = self.folder / "input.sql"
        self.write(path, text)
        return self.program("psql", "-h", "127.0.0.1", "-p", PORTS[0], "-U", "postgres", "-tAq", "-v", "ON_ERROR_STOP=1", "-f", path)

    def choose(self, synchronous, fsync):
        """Changes which standbys a commit waits for, and checks that the change is in effect."""
        names = "FIRST 2 (standby1, standby2)" if synchronous else ""
        settings = f"synchronous_standby_names = '{names}'\nsynchronous_commit = on\nfsync = {'on' if fsync else 'off'}\n"
        for node in self.nodes:
            self.write(node / "measured.conf", settings)
            self.program("pg_ctl", "reload", "-D", node)
        wanted = ("sync" if synchronous else "async", "on" if fsync else "off")
        for _ in range(200):
            states = self.sql("SELECT sync_state FROM pg_stat_replication; SHOW fsync").split()
            if states == [wanted[0], wanted[0], wanted[1]]:
                return
            subprocess.run(["sleep", "0.05"])
        sys.exit(f"compare: the standbys do not become {wanted}: {states}")

    def measure(self, clients, seconds, synchronous, fsync):
        self.choose(synchronous, fsync)
        for old in self.folder.glob("log.*"):
            old.unlink()
        hot = max(self.size * HOT_ACCOUNTS_PERCENT // 100, 1)
        script = CALL.format(hot_accesses=HOT_ACCESSES_PERCENT, hot=hot, size=self.size, shards=SHARDS)
        self.write(self.folder / "call.sql", script)
        self.program(
            "pgbench", "-h", "127.0.0.1", "-p", PORTS[0], "-U", "postgres", "-n", "-M", "prepared", "-f", self.folder / "call.sql",
            "-c", clients, "-j", 1, "-T", seconds, "--max-tries=0", "-l", f"--log-prefix={self.folder}/log", "postgres",
        )  # fmt: skip
        ended = []
        for path in self.folder.glob("log.*"):
            for line in path.read_text().splitlines():
                words = line.split()
                ended.append((int(words[4]) + int(words[5]) / 1e6, int(words[2]), int(words[6])))
        begin = min(at - took / 1e6 for at, took, _ in ended)
        counted = [(took, retries) for at, took, retries in ended if WARM_UP_S <= at - begin < seconds]
        took = sorted(took for took, _ in counted)
        return {
            "throughput_ops_per_s": len(counted) / (seconds - WARM_UP_S),
            "p50_ns": 1000 * took[len(took) // 2],
            "p99_ns": 1000 * took[len(took) * 99 // 100],
            "retries_per_transaction": sum(retries for _, retries in counted) / len(counted),
        }

    def stop(self):
        for node in self.nodes:
            if (node / "postmaster.pid").exists():
                command = [*self.prefix, str(self.bin / "pg_ctl"), "stop", "-m", "immediate", "-D", str(node)]
                subprocess.run(command, capture_output=True, cwd="/")
        shutil.rmtree(self.folder, ignore_errors=True)


def weft(clients, seconds, size, on_disk):
    command = [WEFT, "bench", "txn-net", "--workload", "smallbank", "--size", size, "--clients", clients]
    disk = ["--data-dir", FOLDER] if on_disk else []
    return run([*command, *disk, "--seconds", seconds, "--spin-us", 0, "--json", "-"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--size", type=int, default=10_000, help="accounts of each of three shards")
    parser.add_argument("--clients", default="1,32")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    try:
        loads = [int(clients) for clients in options.clients.split(",")]
    except ValueError:
        parser.error("clients are numbers, such as 1,32")
    if options.rounds < 1 or options.seconds < 1 or options.size < 2 or not all(1 <= clients <= 90 for clients in loads):
        parser.error("rounds and seconds are at least 1, the size 2, and clients 1 to 90")
    if not WEFT.exists():
        sys.exit("compare: weft is not built; run make build")

    postgres = Postgres(options.size)
    # Each system with the way to measure it, and with those of Weft's to which it is compared.
    plan = []
    for clients in loads:
        name = f"{clients} client{'s' if clients > 1 else ''}"
        in_memory, on_disk = f"weft in memory, {name}", f"weft on disk, {name}"
        plan.append((in_memory, partial(weft, clients, options.seconds, options.size, False), []))
        plan.append((on_disk, partial(weft, clients, options.seconds, options.size, True), []))
        for synchronous in (False, True):
            for fsync in (False, True):
                kind = f"{'sync' if synchronous else 'async'}, fsync {'on' if fsync else 'off'}"
                measure = partial(postgres.measure, clients, options.seconds, synchronous, fsync)
                plan.append((f"postgres {kind}, {name}", measure, [in_memory, on_disk] if fsync else [in_memory]))
    results = {name: [] for name, _, _ in plan}
    load_before = os.getloadavg()[0]
    for number in range(options.rounds):
        for name, measure, _ in plan:
            print(f"\rround {number + 1} of {options.rounds}: {name:44}", end="", file=sys.stderr, flush=True)
            results[name].append(measure())
    print(f"\r{'':72}\r", end="", file=sys.stderr)

    def ratio(ours, theirs):
        pairs = zip(results[ours], results[theirs])
        key = "throughput_ops_per_s"
        return f"{statistics.median(one[key] / other[key] for one, other in pairs):.1f}x"

    headings = ["system", "transactions/s", "p50 (us)", "p99 (us)", "weft in memory", "on disk", "checked"]
    table = [headings]
    for name, _, rivals in plan:
        runs = results[name]
        column = lambda key: [one[key] for one in runs]
        ratios = [ratio(rival, name) for rival in rivals]
        ratios += [""] * (2 - len(ratios))
        checked = ", ".join(sorted({one.get("checked", "") for one in runs}))
        cells = [spread(column("throughput_ops_per_s")), spread(column("p50_ns"), 1e3), spread(column("p99_ns"), 1e3)]
        table.append([name, *cells, *ratios, checked])
    widths = [max(len(row[index]) for row in table) for index in range(len(headings))]
    for index, row in enumerate(table):
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |")
        if index == 0:
            print("|" + "|".join("-" * (width + 2) for width in widths) + "|")
    print(
        f"\nmedian [range] of {options.rounds} rounds of {options.seconds} s each; {options.size} accounts on each of {SHARDS} shards; "
        f"PostgreSQL {postgres.version}; {os.cpu_count()} cores, load average {load_before:.1f} before"
    )
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
