#!/usr/bin/env python3
"""Draws packets from the split `test` of the corpus and writes them for `weft bench service --service inspect --packets DIR`.

    target/inspection/venv/bin/python tools/inspection/export.py [--packets N] [--seed N] [--out DIR]

DIR gets a file for each kind: whole, embedded, clean. A packet is its length, four bytes little-endian, and its payload.
"""

import argparse
import pathlib
import struct
import sys

import numpy

import packets

OUT = packets.ROOT / "target/inspection/packets"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--packets", type=int, default=20_000, metavar="N", help="packets of each kind")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--out", type=pathlib.Path, default=OUT, metavar="DIR")
    options = parser.parse_args()
    if not (packets.CORPUS / "manifest.tsv").exists():
        parser.error(f"{packets.CORPUS} is not there; write it with tools/inspection/corpus.py")
    options.out.mkdir(parents=True, exist_ok=True)
    code, data = packets.Corpus("test", "code"), packets.Corpus("test", "clean")
    for name, draw in packets.kinds(code, data, numpy.random.default_rng(options.seed)).items():
        with (options.out / name).open("wb") as file:
            for _ in range(options.packets):
                packet, _ = draw()
                file.write(struct.pack("<I", len(packet)) + packet.tobytes())
    print(f"{options.packets} packets of each kind in {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
