"""The addresses of the card's registers, parsed from their C header."""

import pathlib
import re

HEADER = pathlib.Path(__file__).parents[1] / "include/weft_registers.h"


def addresses():
    """The offset of each register, by its path in the structs of the C header."""
    text = HEADER.read_text()
    structs = dict((name, body) for body, name in re.findall(r"typedef struct[^{]*\{([^{}]*)\} (\w+);", text))

    def size(kind):
        return 4 if kind == "uint32_t" else walk(kind)[1]

    def walk(kind, path="", at=0):
        found = {}
        for member, name, count in re.findall(r"(\w+)\s+(\w+)(?:\[(\w+)\])?;", structs[kind]):
            for index in range(int(count or "1", 0)):
                where = f"{path}{name}" + (f"[{index}]" if count else "")
                if member == "uint8_t":
                    at += 1
                elif member == "uint32_t":
                    found[where] = at
                    at += 4
                else:
                    inner, at = walk(member, f"{where}.", at)
                    found |= inner
        return found, at

    return walk("weft_registers_t")[0]


ADDRESSES = addresses()
