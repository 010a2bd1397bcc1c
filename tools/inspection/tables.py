#!/usr/bin/env python3
"""Writes the tables of the inspection service, for both halves, from model.toml. Needs Python 3.11 only.

    tools/inspection/tables.py           writes them
    tools/inspection/tables.py --check   fails if the files in the repository are out of date
"""

import pathlib
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = pathlib.Path(__file__).with_name("model.toml")
ORIGIN = "// Generated from tools/inspection/model.toml: tools/inspection/tables.py"
CLASSES = {"before": ("InspectBefore", 5), "own": ("InspectOwn", 7), "kind": ("InspectKind", 5)}
SKIPS = ("skips_2", "skips_3", "skips_4")
SCORE_BITS = 7


def lines(values, indent, per_line):
    """Values, several on a line."""
    return "".join(f"{indent}{', '.join(values[at:at + per_line])},\n" for at in range(0, len(values), per_line))


def rust(model):
    def array(name, kind, values):
        return f"pub(super) static {name}: [{kind}; {len(values)}] = [\n{lines(list(map(str, values)), '    ', 24)}];\n"

    text = f"{ORIGIN}\n\n"
    text += f"pub(super) const THRESHOLD: i32 = {model['threshold']};\npub(super) const REPEATED: i32 = {model['repeated']};\n"
    for name in CLASSES:
        text += array(name.upper(), "u8", model[name])
    text += array("PAIRS", "i8", model["pairs"])
    entries = len(model[SKIPS[0]])
    text += f"pub(super) static SKIPS: [[i8; {entries}]; {len(SKIPS)}] = [\n"
    for name in SKIPS:
        text += f"    [\n{lines(list(map(str, model[name])), '        ', 24)}    ],\n"
    return text + "];\n"


def gates(model):
    def literals(values, bits):
        return lines([f"{bits}'h{value & ((1 << bits) - 1):02x}" for value in values], "    ", 12).rstrip(",\n") + "\n"

    text = f"{ORIGIN}\npackage inspect_tables_pkg;\n\n"
    text += f"  localparam logic [19:0] InspectThreshold = 20'd{model['threshold']};\n"
    text += f"  localparam logic signed [{SCORE_BITS - 1}:0] InspectRepeated = {SCORE_BITS}'h{model['repeated'] & 127:02x};\n"
    for name, (constant, bits) in CLASSES.items():
        text += f"\n  localparam logic [{bits - 1}:0] {constant}[256] = '{{\n{literals(model[name], bits)}  }};\n"
    for name in ("pairs", *SKIPS):
        constant = "Inspect" + name.replace("_", "").capitalize()
        text += f"\n  localparam logic signed [{SCORE_BITS - 1}:0] {constant}[{len(model[name])}] = '{{\n{literals(model[name], SCORE_BITS)}  }};\n"
    return text + "\nendpackage\n"


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        print("usage: tools/inspection/tables.py [--check]", file=sys.stderr)
        return 2
    model = tomllib.loads(MODEL.read_text())
    files = {"crates/service/src/inspect/tables.rs": rust(model), "rtl/services/generated/inspect_tables_pkg.sv": gates(model)}
    stale = [name for name, text in files.items() if not (ROOT / name).exists() or (ROOT / name).read_text() != text]
    if sys.argv[1:] and stale:
        print(f"{', '.join(stale)}: out of date; run tools/inspection/tables.py", file=sys.stderr)
        return 1
    for name in stale:
        (ROOT / name).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / name).write_text(files[name])
    return 0


if __name__ == "__main__":
    sys.exit(main())
