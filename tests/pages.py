#!/usr/bin/env python3
"""Runs the commands of the documentation as they are written.

A command is an indented line that begins with `weft`. The commands of one indented block run in order, in a separate
folder that contains the repository's `examples`. Servers (`weft start`, `weft membership`, a line that ends in `&`) run
until the end of the block. If a page starts node 0 of a cluster "in one terminal each", all nodes of the cluster start.

Usage: tests/pages.py [--all] [--list] [PAGE...]

Without arguments: the README and the pages that a new user reads next, without the few commands that take minutes. With
--all: all pages with all commands.
"""

import argparse
import ctypes
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Pages whose commands are all short enough for `make test`.
SHORT = ["README.md", "CONTRIBUTING.md", "docs/operate.md", "docs/transactions.md"]
# A file that commands of pages read: a fault plan with loss on every link, as docs/benchmarks/gateware.md describes.
LOSS = '[[fault]]\nkind = "loss"\nfrom_us = 0\nuntil_us = 1000000\nprobability = 0.01\n'
NO = 3  # Exit code for a negative answer of the cluster.
NOT_WELL = 4  # Exit code of `weft status` if no node runs.
LIMIT_S = 1800
# Commands that exit with 2 on a machine without a GPU.
NEEDS_GPU = "weft bench cuda"
# Commands that change the tree of the repository, which tests of weft-cli try, or need what tools/inspection makes.
NEEDS_TREE = ("weft service new", "weft bench service --service inspect --packets")
# Commands of these pages that take minutes; `make nightly` runs them.
SLOW = {"weft demo --nic rtl", "weft check rounds"}


def blocks(page):
    """The commands of each indented block, as (line number, command, comment)."""
    found, block = [], []
    for number, line in enumerate([*page.read_text().splitlines(), "end"], start=1):
        if line.startswith("    "):
            command, _, comment = line[4:].partition(" #")
            if re.match(r"(weft|for) ", command) and not re.search(r"[<…\[]", command):
                block.append((number, command.strip(), comment.strip()))
        elif block:
            found.append(block)
            block = []
    return found


def has_gpu():
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def is_server(command):
    return command.endswith("&") or re.match(r"weft (start|membership) ", command)


def fill(folder):
    """Creates the files that commands of pages read. Each block has its own folder, so blocks do not share state
    files."""
    shutil.copytree(ROOT / "examples", folder / "examples")
    # The configuration of a cluster whose membership service is a separate process.
    shutil.copy(ROOT / "examples/ledger.toml", folder / "weft.toml")
    (folder / "loss.toml").write_text(LOSS)
    (folder / "out").mkdir()


class Block:
    """The folder of a block, and the servers that it has started."""

    def __init__(self, folder, environment):
        self.folder, self.environment, self.servers = folder, environment, []

    def serve(self, command, comment):
        words = shlex.split(command.rstrip("& "))
        nodes = [words]
        if "one terminal each" in comment:
            nodes = [[*words[:-1], str(node)] for node in range(3)]
        for node in nodes:
            log = (self.folder / f"server{len(self.servers)}.log").open("w+")
            server = subprocess.Popen(
                node, cwd=self.folder, env=self.environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
            self.servers.append((node, server, log))

    def await_servers(self):
        """Waits until each node reports that it is full, and checks that no server has ended."""
        time.sleep(0.2 if self.servers else 0)  # After this time, a server that refuses its configuration has ended.
        for node, server, log in self.servers:
            deadline = time.monotonic() + 60
            while node[1] == "start" and "as full" not in pathlib.Path(log.name).read_text():
                if server.poll() is not None or time.monotonic() > deadline:
                    break
                time.sleep(0.05)
            if server.poll() is not None:
                return f"{shlex.join(node)} ended with {server.returncode}: {pathlib.Path(log.name).read_text()}"
        return None

    def run(self, command, comment):
        """Runs one command. Returns a description of the failure, if any."""
        trouble = self.await_servers()
        if trouble:
            return trouble
        allowed = {NO} if "refused" in comment else {0}
        if command.startswith("weft status ") and not self.servers:
            allowed = {NOT_WELL}
        done = subprocess.run(
            ["bash", "-c", command], cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=LIMIT_S
        )
        if done.returncode not in allowed:
            return f"exit code {done.returncode}: {done.stderr.strip() or done.stdout.strip()[-1000:]}"
        result = re.match(r"committed: .*", comment)
        if result and result.group() not in done.stdout:
            return f"it printed {done.stdout!r}"
        return None

    def end(self):
        for _, server, log in self.servers:
            if server.poll() is None:
                os.killpg(server.pid, signal.SIGKILL)
            server.wait()
            log.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="only list the commands")
    parser.add_argument("--all", action="store_true", help="all pages, and commands that take minutes, too")
    parser.add_argument("pages", nargs="*", metavar="PAGE")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # Ensures that servers are ended on this signal, too.
    weft = pathlib.Path(os.environ.get("WEFT", ROOT / "target/release/weft")).resolve()
    if not weft.exists():
        parser.error(f"{weft} is not there; run make build")
    environment = {**os.environ, "PATH": f"{weft.parent}:{os.environ['PATH']}"}
    count, failures = 0, 0
    pages = options.pages or SHORT
    if options.all and not options.pages:
        pages = [str(page.relative_to(ROOT)) for page in [*ROOT.glob("*.md"), *sorted(ROOT.glob("docs/**/*.md"))]]
    for page in pages:
        for block in blocks(ROOT / page):
            block = [entry for entry in block if not entry[1].startswith(NEEDS_TREE)]
            if not options.all:
                block = [entry for entry in block if entry[1] not in SLOW]
            if not has_gpu():
                block = [entry for entry in block if not entry[1].startswith(NEEDS_GPU)]
            if options.list:
                print(*(f"{page}:{number}: {command}" for number, command, _ in block), sep="\n")
                continue
            with tempfile.TemporaryDirectory() as folder:
                folder = pathlib.Path(folder)
                fill(folder)
                state = Block(folder, environment)
                try:
                    for number, command, comment in block:
                        count += 1
                        begin = time.monotonic()
                        if is_server(command):
                            state.serve(command, comment)
                            trouble = None
                        else:
                            trouble = state.run(command, comment)
                        seconds = time.monotonic() - begin
                        print(f"{'FAILED' if trouble else 'ok':6} {seconds:6.1f} s  {page}:{number}: {command}", flush=True)
                        if trouble:
                            failures += 1
                            print(f"    {trouble}", flush=True)
                    trouble = state.await_servers()
                    if trouble:
                        failures += 1
                        print(f"FAILED {page}: {trouble}", flush=True)
                finally:
                    state.end()
    if not options.list:
        print(f"{count} commands of the pages, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
