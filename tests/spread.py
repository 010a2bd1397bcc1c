#!/usr/bin/env python3
"""Fault campaigns on several machines: tools/spread.py with two workers of which one is killed, and the Slurm script.

    tests/spread.py        with a Python that has the packages of examples/cluster/requirements.txt; else it is skipped
"""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
WEFT = os.environ.get("WEFT", str(ROOT / "target/release/weft"))
SEEDS = 40
CAMPAIGN = ["sim", "kv", "--nodes", "3", "--seeds", f"1..{SEEDS}"]
# No node comes back, so that the cluster does not serve again: a violation in every run.
FATAL = "".join(f'[[fault]]\nkind = "crash"\nat_us = 3000\nmachine = "node{node}"\n' for node in range(3))
# On busy machines.
PATIENCE_S = 120
# What must be the same however a campaign was divided.
FIGURES = ("seed", "seeds_run", "operations", "views", "faults", "live_within_ns", "violations", "checked")


def started(stack, *command):
    """A process that is killed at the end of the test."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    stack.callback(process.wait)
    stack.callback(process.kill)
    return process


def module(name):
    return [sys.executable, "-m", f"distributed.cli.{name}"]


def awaited(what, found):
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        if result := found():
            return result
        time.sleep(0.02)
    sys.exit(f"spread: not after {PATIENCE_S} s: {what}")


def spread(*arguments):
    return [sys.executable, str(ROOT / "tools/spread.py"), "--weft", WEFT, *arguments]


def a_worker_is_killed(folder):
    """A worker is killed while it runs a slice: the result is that of one machine alone."""
    from distributed import Client

    alone, merged, file = folder / "alone.json", folder / "merged.json", folder / "scheduler.json"
    subprocess.run([WEFT, *CAMPAIGN, "--json", alone], check=True, capture_output=True)
    with contextlib.ExitStack() as stack:
        options = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)]
        started(stack, *module("dask_scheduler"), *options)
        awaited("a scheduler", file.exists)
        address = awaited("its address", lambda: json.loads(file.read_text() or "{}").get("address"))
        options = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(folder)]
        workers = {name: started(stack, *module("dask_worker"), address, *options, "--name", name) for name in "ab"}
        client = stack.enter_context(Client(address))
        client.wait_for_workers(2, timeout=PATIENCE_S)
        command = spread("--scheduler", address, "--slices", "20", "--json", str(merged), *CAMPAIGN)
        running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        stack.callback(running.kill)
        named = {info["name"]: worker for worker, info in client.scheduler_info()["workers"].items()}
        awaited("a slice at worker a", lambda: client.processing().get(named["a"]))
        workers["a"].send_signal(signal.SIGKILL)
        output, _ = running.communicate(timeout=PATIENCE_S)
        assert running.returncode == 0, output
        assert "20 of 20 done" in output, output
        assert workers["a"].wait() == -signal.SIGKILL and workers["b"].poll() is None
    one, other = (json.loads(path.read_text()) for path in (alone, merged))
    for figure in FIGURES:
        assert one[figure] == other[figure], f"{figure}: {one[figure]} alone, {other[figure]} in slices"
    print(f"spread: two workers, one killed: {SEEDS} seeds as on one machine alone")


def each_violation_has_its_replay(folder):
    plan = folder / "fatal.toml"
    plan.write_text(FATAL)
    campaign = ["sim", "kv", "--nodes", "3", "--seeds", "1..2", "--faults", str(plan)]
    done = subprocess.run(spread("--workers", "1", *campaign), capture_output=True, text=True)
    assert done.returncode == 1, done
    for seed in (1, 2):
        replay = f"weft sim kv --nodes 3 --seeds {seed}..{seed} --faults {plan}"
        assert f"  repeat  {replay}\n" in done.stdout, done.stdout
        again = subprocess.run([WEFT, *replay.split()[1:]], capture_output=True, text=True)
        assert again.returncode == 1 and f"seed {seed}: " in again.stdout + again.stderr, again
    print("spread: each violation is printed with the command that repeats it")


def bad_input_gets_one_line():
    for arguments, line in (
        ([*CAMPAIGN[:2]], "give a campaign with its seeds"),
        ([*CAMPAIGN, "--slice", "1/2"], "give a campaign with its seeds"),
        ([*CAMPAIGN, "--jobs", "2"], "give a campaign with its seeds"),
        (["--workers", "1", *CAMPAIGN[:4], "--nodes", "99", "--seeds", "1..1"], "weft: "),
        (["--workers", "1", "--weft", "/nowhere", *CAMPAIGN], "No such file or directory: /nowhere"),
        (["--scheduler", "tcp://127.0.0.1:9", "--patience", "1", *CAMPAIGN], "no Dask cluster: "),
    ):
        done = subprocess.run(spread(*arguments), capture_output=True, text=True)
        said = done.stderr.splitlines()
        assert done.returncode == 2 and len(said) == 1 and said[0].startswith("spread: ") and line in said[0], done
    print("spread: bad input gets one line and exit code 2")


def the_slurm_script_runs_the_slices(folder):
    path = f"{pathlib.Path(WEFT).resolve().parent}:{os.environ['PATH']}"
    script = ROOT / "examples/cluster/campaign.slurm"
    for task in (1, 2):
        environment = os.environ | {"PATH": path, "SLURM_ARRAY_TASK_ID": str(task), "SLURM_ARRAY_TASK_COUNT": "2"}
        command = [script, "sim", "kv", "--nodes", "3", "--seeds", "1..4"]
        subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
    files = sorted((folder / "campaign").iterdir())
    assert [file.name for file in files] == ["1.json", "2.json"], files
    merged = subprocess.run([WEFT, "sim", "merge", *files, "--json", "-"], check=True, capture_output=True)
    assert json.loads(merged.stdout)["seeds_run"] == 4
    print("spread: the jobs of the Slurm array join")


def main():
    try:
        import distributed  # noqa: F401
    except ImportError:
        print("spread: skipped: no Dask: pip install --requirement examples/cluster/requirements.txt")
        return
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        a_worker_is_killed(folder)
        each_violation_has_its_replay(folder)
        bad_input_gets_one_line()
        the_slurm_script_runs_the_slices(folder)


if __name__ == "__main__":
    main()
