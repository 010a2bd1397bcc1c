#!/usr/bin/env python3
"""Makes the corpus of the inspection service: machine code and clean data, in three splits, with a manifest of hashes.

The bytes are not kept in the repository: they lie in target/inspection/corpus, beside a manifest of all pieces (split, kind, generator,
name, size, SHA-256). The manifest in the repository has a line for each split and generator: the number of its pieces, their bytes, and
the SHA-256 of their lines. Seeded data is equal on all machines. Machine code and installed files depend on the distribution and on the
compilers, so the lines of `code` and `installed` differ on another machine.
"""

import hashlib
import itertools
import pathlib
import sys

import data
import programs

ROOT = pathlib.Path(__file__).resolve().parents[2]
CORPUS = ROOT / "target/inspection/corpus"
MANIFEST = pathlib.Path(__file__).with_name("manifest.tsv")


def digest(lines):
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def main():
    CORPUS.mkdir(parents=True, exist_ok=True)
    rows = []
    for piece in itertools.chain(programs.pieces(), data.pieces()):
        (CORPUS / piece.digest).write_bytes(piece.data)
        rows.append((piece.split, piece.kind, piece.generator, piece.name, str(len(piece.data)), piece.digest))
    rows.sort()
    (CORPUS / "manifest.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
    lines = []
    for of, group in itertools.groupby(rows, key=lambda row: row[:3]):
        group = list(group)
        size = sum(int(row[4]) for row in group)
        lines.append("\t".join([*of, str(len(group)), str(size), digest("\t".join(row) for row in group)]))
    MANIFEST.write_text("\n".join(lines) + "\n")
    print(f"{len(rows)} pieces; the manifest's SHA-256 is {hashlib.sha256(MANIFEST.read_bytes()).hexdigest()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
