#!/usr/bin/env python3
"""Names the counters by index, for drivers: every bit of `nic_events_t` of rtl/nic/events_pkg.sv, from bit 0 on.

Prints a JSON array of {"block", "name"}. A name that several blocks use, and a field of several bits, appear several
times; the value of such a counter is the sum.
"""

import json
import pathlib
import re

RTL = pathlib.Path(__file__).parents[1] / "rtl"


def structs(file):
    """Type -> [(type of the field, bits, field)] for each packed struct of logic or of other structs."""
    text = re.sub(r"//[^\n]*", "", (RTL / file).read_text())
    found = re.findall(r"typedef struct packed \{([^}]*)\} (\w+);", text)
    return {
        name: [
            (kind, int(high or 0) + 1, field)
            for kind, high, field in re.findall(r"(\w+)\s*(?:\[(\d+):0\])?\s+(\w+)\s*;", body)
        ]
        for body, name in found
    }


def main():
    events = {}
    for package in ("weft_pkg.sv", "engines/engines_pkg.sv", "engines/kv/kv_pkg.sv"):
        events |= structs(package)
    names = []
    # The last field of a packed struct is in its lowest bits.
    for kind, _, block in reversed(structs("nic/events_pkg.sv")["nic_events_t"]):
        for _, bits, field in reversed(events[kind]):
            names += [{"block": block, "name": field}] * bits
    print("[\n  " + ",\n  ".join(json.dumps(name) for name in names) + "\n]")


if __name__ == "__main__":
    main()
