#!/usr/bin/env python3
"""Synthesises the blocks of rtl/budgets.toml for UltraScale+ with yosys and holds each to its budget.

Prints LUTs, flip-flops, block RAM (in 36 Kb blocks), UltraRAM, DSP blocks and the longest path in LUT levels. A level is one LUT,
or one entry into a carry chain; multiplexers behind LUTs (MUXF7 to MUXF9) and the steps within a carry chain are free. That ignores
routing and the length of carry chains: it finds long paths, it is no timing closure. A DSP block counts as a register.

Results are cached in target/synth under a hash of the block's sources and of this script, so unchanged blocks are not synthesised again.
"""

import argparse
import concurrent.futures
import functools
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[1]
OUT = ROOT / "target/synth"
BUDGETS = ROOT / "rtl/budgets.toml"
PAGE = ROOT / "docs/gateware.md"
BEGIN, END = "<!-- synthesis: begin -->", "<!-- synthesis: end -->"

CARRY = {"CARRY4", "CARRY8"}
MULTIPLEXERS = {"MUXF7", "MUXF8", "MUXF9"}
SEQUENTIAL = ("FD", "RAMB", "URAM", "DSP", "SRL16", "SRLC")
# Distributed RAM, written on the clock edge and read like a LUT: number of LUTs of each cell.
DISTRIBUTED = {"RAM32X1D": 2, "RAM64X1D": 2, "RAM128X1D": 4, "RAM256X1D": 8, "RAM32M": 4, "RAM64M": 4, "RAM32M16": 8,
               "RAM64M8": 8, "RAM32X1S": 1, "RAM64X1S": 1, "RAM128X1S": 2, "RAM256X1S": 4, "RAM512X1S": 8}


def sources():
    """The files of the file list, in order."""
    lines = (ROOT / "rtl/weft.f").read_text().splitlines()
    return [f"rtl/{line.strip()}" for line in lines if line.strip() and not line.startswith(("//", "#"))]


# A package's name before `::`; or a module's name before its parameters or an instance's name.
USE = re.compile(r"\b(\w+)(?:::|\s*#\s*\(|\s+\w+\s*\()")


def needed(top):
    """The files of `top` and of all modules and packages that it uses, in order."""
    files = {pathlib.Path(file).stem: file for file in sources()}
    reached, new = set(), {top}
    while new:
        reached |= new
        texts = (re.sub(r"//.*", "", (ROOT / files[name]).read_text()) for name in new)
        new = {name for text in texts for name in USE.findall(text)} & files.keys() - reached
    return [file for name, file in files.items() if name in reached]


def levels(module):
    """The longest path between flip-flops, memories and ports, in levels, and its end point."""
    drivers = {}
    for name, cell in module["cells"].items():
        for port, bits in cell["connections"].items():
            if cell["port_directions"][port] == "output":
                for bit in bits:
                    drivers[bit] = (name, port)
    names = {}
    for name, net in module["netnames"].items():
        for bit in net["bits"]:
            if bit not in names or len(name) < len(names[bit]):
                names[bit] = name

    def inputs(cell, output):
        """The inputs that determine `output` combinationally. For a distributed RAM only the address of the same
        read port counts."""
        for port, bits in cell["connections"].items():
            if cell["port_directions"][port] != "input":
                continue
            if cell["type"] in DISTRIBUTED and not port.startswith(read_address(output)):
                continue
            yield from ((port, bit) for bit in bits if isinstance(bit, int))

    def read_address(output):
        if output.startswith("DO"):
            return f"ADDR{output[2]}"
        return "DPRA" if output == "DPO" else "A"

    sys.setrecursionlimit(1_000_000)

    @functools.cache
    def depth(bit):
        if bit not in drivers:
            return 0
        name, output = drivers[bit]
        cell = module["cells"][name]
        kind = cell["type"]
        if kind.startswith(SEQUENTIAL):
            return 0
        below = 0
        for port, source in inputs(cell, output):
            through = depth(source)
            if kind in CARRY and port in ("CI", "CI_TOP", "CYINIT") and is_carry(source):
                through -= 1
            below = max(below, through)
        if kind in MULTIPLEXERS or kind in ("BUFG", "IBUF", "OBUF", "INV"):
            return below
        return below + 1

    def is_carry(bit):
        return bit in drivers and module["cells"][drivers[bit][0]]["type"] in CARRY

    deepest, where = 0, ""
    for name, cell in module["cells"].items():
        if not (cell["type"].startswith(SEQUENTIAL) or cell["type"] in DISTRIBUTED):
            continue
        for port, bits in cell["connections"].items():
            if cell["port_directions"][port] == "input":
                for bit in bits:
                    if isinstance(bit, int) and depth(bit) > deepest:
                        deepest = depth(bit)
                        own = [b for b in cell["connections"].get("Q", []) if b in names]
                        where = names[own[0]] if own else f"{name}.{port}"
    for port in module["ports"].values():
        if port["direction"] == "output":
            for bit in port["bits"]:
                if isinstance(bit, int) and depth(bit) > deepest:
                    deepest, where = depth(bit), "an output"
    return deepest, where


def figures_of(top, module):
    """The resources that a netlist uses."""
    count = {}
    for cell in module["cells"].values():
        count[cell["type"]] = count.get(cell["type"], 0) + 1
    luts = sum(number for kind, number in count.items() if kind.startswith("LUT") and kind[3:].isdigit())
    memory_luts = sum(number * DISTRIBUTED[kind] for kind, number in count.items() if kind in DISTRIBUTED)
    memory_luts += sum(number for kind, number in count.items() if kind.startswith("SRL"))
    deepest, where = levels(module)
    return {
        "block": top,
        "luts": luts + memory_luts,
        "flip_flops": sum(number for kind, number in count.items() if kind.startswith("FD")),
        "block_rams": sum(n * {"RAMB36E2": 1.0, "RAMB18E2": 0.5}.get(kind, 0) for kind, n in count.items()),
        "ultra_rams": count.get("URAM288", 0),
        "dsps": sum(number for kind, number in count.items() if kind.startswith("DSP")),
        "lut_levels": deepest,
        "longest_path_ends_at": where,
    }


def measure(top, parameters):
    """Runs yosys on one block, or returns the cached result."""
    files = needed(top)
    digest = hashlib.sha256(pathlib.Path(__file__).read_bytes() + json.dumps([top, parameters]).encode())
    for file in files:
        digest.update((ROOT / file).read_bytes())
    kept = OUT / f"{top}-{digest.hexdigest()[:16]}.json"
    if kept.exists():
        return json.loads(kept.read_text())
    settings = "".join(f" -G {name}={value}" for name, value in parameters.items())
    with tempfile.TemporaryDirectory(dir=OUT) as folder:
        netlist = pathlib.Path(folder) / "netlist.json"
        script = pathlib.Path(folder) / "synth.ys"
        script.write_text(
            f"read_slang --threads 1 --top {top}{settings} {' '.join(files)}\n"
            f"synth_xilinx -family xcup -top {top} -flatten -noclkbuf -noiopad\n"
            f"write_json {netlist.relative_to(ROOT)}\n"
        )
        command = [str(ROOT / ".venv/bin/yosys"), "-q", "-s", str(script.relative_to(ROOT))]
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if result.returncode:
            raise RuntimeError(f"{top}: yosys failed\n{result.stdout[-2000:]}{result.stderr[-2000:]}")
        design = json.loads(netlist.read_text())
    figures = figures_of(top, design["modules"][top])
    for old in OUT.glob(f"{top}-????????????????.json"):
        old.unlink()
    kept.write_text(json.dumps(figures, indent=2) + "\n")
    return figures


def table(results, budgets, peers, before):
    """The results as a Markdown table. Blocks that were not measured keep their rows of the table `before`."""
    rows = {found[1]: found[0] for found in re.finditer(r"^\| `(\w+)` .*$", before, re.MULTILINE)}
    for found in results:
        budget = budgets[found["block"]]
        peer = peers.get(found["block"], "")
        rows[found["block"]] = (
            f"| `{found['block']}` | {found['luts']:,} | {budget['luts']:,} | {found['flip_flops']:,} "
            f"| {budget['flip_flops']:,} | {found['block_rams']:g} | {found['ultra_rams']} | {found['lut_levels']} | {peer} |"
        )
    lines = [
        "| block | LUT | budget | flip-flops | budget | block RAM | UltraRAM | levels | BALBOA LUT / FF / BRAM |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---|",
        *(rows[name] for name in budgets if name in rows),
    ]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="write the figures as JSON (- for standard output)")
    parser.add_argument("--update", action="store_true", help="write the table into docs/gateware.md")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N", help="blocks at a time (default: all cores)")
    parser.add_argument("blocks", nargs="*", help="only these blocks")
    options = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    plan = tomllib.loads(BUDGETS.read_text())
    budgets = {block["name"]: block for block in plan["block"]}
    if unknown := set(options.blocks) - budgets.keys():
        print(f"no budget for {', '.join(sorted(unknown))}; there are {', '.join(budgets)}", file=sys.stderr)
        return 2
    wanted = options.blocks or list(budgets)
    human = sys.stderr if options.json == "-" else sys.stdout
    header = f"{'block':<22}{'LUT':>9}{'budget':>9}{'FF':>9}{'budget':>9}{'BRAM':>8}{'URAM':>6}{'DSP':>6}{'levels':>8}"
    print(header, file=human, flush=True)
    results, over = [], []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for found in pool.map(lambda name: measure(name, budgets[name].get("parameters", {})), wanted):
            budget = budgets[found["block"]]
            results.append(found)
            print(
                f"{found['block']:<22}{found['luts']:>9,}{budget['luts']:>9,}{found['flip_flops']:>9,}"
                f"{budget['flip_flops']:>9,}{found['block_rams']:>8g}{found['ultra_rams']:>6}{found['dsps']:>6}{found['lut_levels']:>8}",
                file=human, flush=True,
            )
            limits = {"luts": budget["luts"], "flip_flops": budget["flip_flops"], "lut_levels": budget.get("lut_levels", 12)}
            over += [
                f"{found['block']}: {found[what]:,} {what}, budget {limit:,} (longest path ends at {found['longest_path_ends_at']})"
                for what, limit in limits.items() if found[what] > limit
            ]
    if options.json:
        text = json.dumps({"blocks": results, "over_budget": over}, indent=2) + "\n"
        sys.stdout.write(text) if options.json == "-" else pathlib.Path(options.json).write_text(text)
    if options.update:
        page = PAGE.read_text()
        before, _, rest = page.partition(BEGIN)
        rows, _, after = rest.partition(END)
        PAGE.write_text(f"{before}{BEGIN}\n{table(results, budgets, plan['balboa'], rows)}{END}{after}")
    for line in over:
        print(f"over budget: {line}", file=sys.stderr)
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
