#!/usr/bin/env python3
"""Proves the blocks that have a SymbiYosys file, and shows that the proofs can fail.

Each `rtl/**/formal/*.sby` must pass. Each mutant of `rtl/**/formal/mutants.toml` plants one bug in one block, and must
make the proof of that block fail, because a proof that passes with a bug proves nothing.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[1]
OUT = ROOT / "target/formal"


def run(name, folder, sby, tasks):
    """Runs tasks of one proof. Returns (passed, seconds, last lines)."""
    begin = time.monotonic()
    work = OUT / name
    environment = os.environ | {"PATH": f"{ROOT / '.venv/bin'}:{os.environ['PATH']}"}
    command = [".venv/bin/sby", "-f", "--prefix", os.path.relpath(work, folder), sby.name, *tasks]
    command[0] = str(ROOT / command[0])
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return result.returncode, time.monotonic() - begin, result.stdout.splitlines()[-12:]


def prove(sby):
    name = sby.stem
    code, seconds, tail = run(name, sby.parent, sby, [])
    return {"block": name, "what": "proof", "passed": code == 0, "seconds": round(seconds, 1), "tail": tail}


def plant(mutant, mutants):
    """Copies the folders of blocks, plants the bug, and expects a counterexample."""
    source = mutants.parent.parent
    name = f"mutant-{mutant['block']}-{mutant['name']}".replace(" ", "-")
    tree = OUT / f"{name}-source/rtl"
    copy = tree / source.relative_to(ROOT / "rtl")
    shutil.rmtree(tree.parent, ignore_errors=True)
    # A proof may use blocks of other folders.
    for file in (ROOT / "rtl").glob("**/*.sv"):
        target = tree / file.relative_to(ROOT / "rtl")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, target)
    for file in source.glob("formal/*.sby"):
        shutil.copy(file, copy / "formal")
    block = copy / f"{mutant['block']}.sv"
    text = block.read_text()
    if text.count(mutant["replace"]) != 1:
        sys.exit(f"{mutants}: `{mutant['replace']}` must be in {block.name} exactly once")
    block.write_text(text.replace(mutant["replace"], mutant["by"]))
    folder = copy / "formal"
    code, seconds, tail = run(name, folder, folder / f"{mutant['block']}.sby", ["prove"])
    # SymbiYosys exits with 2 for a counterexample, and with 4 if only the induction fails.
    caught = code in (2, 4)
    what = f"planted bug: {mutant['name']}"
    return {"block": mutant["block"], "what": what, "passed": caught, "seconds": round(seconds, 1), "tail": tail}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="write the results as JSON (- for standard output)")
    parser.add_argument("blocks", nargs="*", help="only these blocks")
    options = parser.parse_args()
    proofs = sorted((ROOT / "rtl").glob("**/formal/*.sby"))
    wanted = [sby for sby in proofs if not options.blocks or sby.stem in options.blocks]
    if unknown := set(options.blocks) - {sby.stem for sby in proofs}:
        print(f"no proof of {', '.join(sorted(unknown))}; there are {', '.join(p.stem for p in proofs)}", file=sys.stderr)
        return 2
    OUT.mkdir(parents=True, exist_ok=True)
    jobs = [(prove, sby) for sby in wanted]
    for mutants in sorted((ROOT / "rtl").glob("**/formal/mutants.toml")):
        for mutant in tomllib.loads(mutants.read_text())["mutant"]:
            if any(sby.stem == mutant["block"] for sby in wanted):
                jobs.append((plant, mutant, mutants))
    results = []
    human = sys.stderr if options.json == "-" else sys.stdout
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for done in pool.map(lambda job: job[0](*job[1:]), jobs):
            results.append(done)
            verdict = ("proved" if done["what"] == "proof" else "caught") if done["passed"] else "FAILED"
            print(f"{done['block']:<18} {done['what']:<44} {verdict:<7} {done['seconds']:6.1f} s", file=human, flush=True)
            if not done["passed"]:
                print("\n".join("    " + line for line in done["tail"]), file=human)
    failed = [done for done in results if not done["passed"]]
    if options.json:
        text = json.dumps({"results": [{k: v for k, v in r.items() if k != "tail"} for r in results]}, indent=2) + "\n"
        sys.stdout.write(text) if options.json == "-" else pathlib.Path(options.json).write_text(text)
    print(f"{len(results) - len(failed)} of {len(results)} as expected", file=human)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
