#!/usr/bin/env python3
"""How much of the gateware the block tests execute, as Verilator counts it.

    tools/coverage_rtl.py [--files] [--json] [--workers N] [TEST]...

Builds the blocks with counters, in `target/rtl-coverage`, and runs the given cocotb tests (by default those of
`make blocks`). Prints for each folder of rtl/ the lines and the signal toggles that they cover, and with `--files` for
each file. A line counts if any instance executed it. A toggle is a bit that rises, or one that falls. Files that no
selected test builds do not count; the campaigns and lock-step tests of the whole gateware are not measured.

Skipped where the environment of `tools/setup.sh` is missing; the exit status is 1 if a test failed.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
RTL = ROOT / "rtl"
BUILD = ROOT / "target/rtl-coverage"
PYTHON = ROOT / ".venv/bin/python"

POINT = re.compile(r"C '(.*)' (\d+)")
COLUMNS = ("lines", "toggles")


def lines(text):
    """The lines of a range such as `12-14,20`."""
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def points(counts):
    """Each point in the text of a file of counts: column, source, key, whether it was reached."""
    for fields, count in POINT.findall(counts):
        point = dict(field.split("\x02", 1) for field in fields.split("\x01") if field)
        if point["page"].startswith("v_toggle"):
            yield "toggles", point["f"], (point["l"], point["o"]), count != "0"
        else:
            for line in lines(point.get("S") or point["l"]):
                yield "lines", point["f"], line, count != "0"


def merged(files):
    """For each source below rtl/ and each column, whether each point was reached by any test."""
    sources = collections.defaultdict(lambda: {column: {} for column in COLUMNS})
    for file in files:
        for column, source, key, reached in points(file.read_text()):
            source = pathlib.Path(source)
            if source.is_relative_to(RTL):
                found = sources[str(source.relative_to(RTL))][column]
                found[key] = found.get(key, False) or reached
    return sources


def table(sources, name):
    """Points reached and points in all, for each row and column. `name` gives the row of a source."""
    rows = collections.defaultdict(lambda: {column: [0, 0] for column in COLUMNS})
    for source, columns in sources.items():
        for row in (name(source), "all"):
            for column, found in columns.items():
                rows[row][column][0] += sum(found.values())
                rows[row][column][1] += len(found)
    return [(row, rows[row]) for row in sorted(rows, key=lambda row: (row == "all", row))]


def percent(reached, total):
    return round(100 * reached / total, 1) if total else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", nargs="*", default=["rtl"], metavar="TEST", help="files or folders of tests (rtl)")
    parser.add_argument("--files", action="store_true", help="a row for each file")
    parser.add_argument("--workers", default="auto", help="how many tests run at once (one for each core)")
    parser.add_argument("--json", action="store_true", help="as JSON")
    arguments = parser.parse_args()
    for test in arguments.tests:
        if not (ROOT / test).exists():
            parser.error(f"{test}: no such file")
    if not PYTHON.exists():
        print("coverage-rtl: skipped: no .venv: run tools/setup.sh")
        return 0
    for file in BUILD.glob("*/*.coverage"):
        file.unlink()
    environment = os.environ | {"WEFT_RTL_COVERAGE": "1", "WEFT_RTL_BUILD": str(BUILD)}
    command = [PYTHON, "-m", "pytest", "--quiet", "--numprocesses", arguments.workers, *arguments.tests]
    status = subprocess.run(command, cwd=ROOT, env=environment, stdout=sys.stderr).returncode
    name = str if arguments.files else lambda source: pathlib.Path(source).parent.as_posix()
    rows = table(merged(sorted(BUILD.glob("*/*.coverage"))), name)
    if arguments.json:
        print(json.dumps({
            row: {column: {"covered": reached, "total": total, "percent": percent(reached, total)}
                  for column, (reached, total) in columns.items()}
            for row, columns in rows
        }, indent=2))
    else:
        print("| rtl/ | lines | covered | toggles | covered |\n|---|---|---|---|---|")
        for row, columns in rows:
            cells = [f"{total:,} | {percent(reached, total)} %" if total else "0 | –" for reached, total in columns.values()]
            print(f"| {row} | {' | '.join(cells)} |")
    return 1 if status else 0


if __name__ == "__main__":
    sys.exit(main())
