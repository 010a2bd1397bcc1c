#!/usr/bin/env python3
"""Runs a fault campaign on the workers of a Dask cluster: slices of its seeds are the tasks.

    tools/spread.py [--scheduler ADDRESS | --workers N] [--slices N] [--json FILE] sim kv --nodes 5 --seeds 1..2000

Needs `pip install --requirement examples/cluster/requirements.txt` at this machine, the scheduler and the workers, and
the same `weft` at all of them (`--weft`). Without `--scheduler`, the workers are processes of this machine. A slice
whose worker dies runs again at another one, which gives the same result, because the seed determines a run. A
violation is printed as soon as its slice has ended, with the command that repeats it; at the end `weft sim merge`
joins the results.

The exit status is 1 if a violation was found, and 2 if a slice could not be run.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
# How often a slice is tried again if `weft` itself was killed. Slices whose worker died are repeated by Dask.
RETRIES = 2


class Unusable(Exception):
    """Why a campaign cannot be run, in one line."""


def run_slice(weft, campaign, part, parts):
    """A task, which takes one core: the result of one slice as JSON, or the line that says why there is none."""
    command = [weft, *campaign, "--slice", f"{part}/{parts}", "--jobs", "1", "--json", "-"]
    try:
        process = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        return None, f"{error.strerror}: {weft}"
    if process.returncode in (0, 1):
        return json.loads(process.stdout), None
    if process.returncode == 2:
        return None, process.stderr.strip()
    raise RuntimeError(f"slice {part}/{parts} ended with {process.returncode}")


def number_of_seeds(campaign):
    text = " ".join(campaign)
    seeds = re.search(r"--seeds?[ =](\d+)(?:\.\.(\d+))?(?: |$)", text)
    if campaign[:1] != ["sim"] or re.search("--(slice|jobs|json)", text) or not seeds:
        raise Unusable(
            "give a campaign with its seeds and without --slice, --jobs and --json: sim kv --nodes 5 --seeds 1..2000"
        )
    first, last = int(seeds[1]), int(seeds[2] or seeds[1])
    return max(last - first + 1, 1)


def connected(distributed, arguments):
    """A client of the Dask cluster, once it has a worker."""
    try:
        if arguments.scheduler:
            client = distributed.Client(arguments.scheduler, timeout=arguments.patience)
        else:
            workers = arguments.workers or os.cpu_count()
            client = distributed.Client(n_workers=workers, threads_per_worker=1, dashboard_address=None)
        client.wait_for_workers(1, timeout=arguments.patience)
    except (OSError, ValueError, TimeoutError) as error:
        raise Unusable(f"no Dask cluster: {error}") from error
    return client


def results(distributed, client, arguments, parts):
    """The results of all slices. Prints the violations of each as soon as it has ended."""
    tasks = {
        client.submit(run_slice, arguments.weft, arguments.campaign, part, parts, pure=False, retries=RETRIES): part
        for part in range(1, parts + 1)
    }
    for ended, task in enumerate(distributed.as_completed(tasks), start=1):
        if task.status != "finished":
            raise Unusable(f"slice {tasks[task]}/{parts}: {task.exception()}")
        result, refusal = task.result()
        if refusal:
            raise Unusable(f"slice {tasks[task]}/{parts}: {refusal}")
        print(f"slice {tasks[task]}/{parts}: {result['violations_found']} violations ({ended} of {parts} done)", flush=True)
        for violation in result["violations"]:
            print(f"seed {violation['seed']}: {violation['what']}\n  repeat  {violation['replay']}", flush=True)
        yield result


def spread(arguments):
    try:
        import distributed
    except ImportError as error:
        raise Unusable("needs Dask: pip install --requirement examples/cluster/requirements.txt") from error
    seeds = number_of_seeds(arguments.campaign)
    with connected(distributed, arguments) as client, tempfile.TemporaryDirectory() as folder:
        cores = sum(client.nthreads().values())
        # Several slices for each core, so that a slow or lost one costs little.
        parts = min(arguments.slices or 4 * cores, seeds)
        print(f"{seeds} seeds in {parts} slices on {cores} cores of {len(client.nthreads())} workers", flush=True)
        files = []
        for result in results(distributed, client, arguments, parts):
            files.append(pathlib.Path(folder) / f"{len(files)}.json")
            files[-1].write_text(json.dumps(result))
        merge = [arguments.weft, "sim", "merge", *files, "--json", arguments.json or os.devnull]
        return subprocess.run(merge).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--scheduler", metavar="ADDRESS", help="of the Dask cluster, such as tcp://10.0.0.1:8786")
    where.add_argument("--workers", type=int, metavar="N", help="workers on this machine (one for each core)")
    parser.add_argument("--slices", type=int, metavar="N", help="number of tasks (four for each core of the workers)")
    parser.add_argument("--weft", default=str(ROOT / "target/release/weft"), help="the command, at all machines")
    parser.add_argument("--patience", type=float, default=30, metavar="SECONDS", help="to wait for a worker (30)")
    parser.add_argument("--json", metavar="FILE", help="write the merged result")
    parser.add_argument("campaign", nargs=argparse.REMAINDER, help="sim KIND OPTIONS, as `weft` takes them")
    arguments = parser.parse_args()
    if min(arguments.workers or 1, arguments.slices or 1) < 1:
        parser.error("there is at least one worker and one slice")
    try:
        return spread(arguments)
    except Unusable as error:
        print(f"spread: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
