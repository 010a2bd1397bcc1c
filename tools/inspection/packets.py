"""Draws packets from the corpus: clean ones, ones that are code throughout, and ones in which code is embedded in clean data."""

import csv
import pathlib

import numpy

ROOT = pathlib.Path(__file__).resolve().parents[2]
CORPUS = ROOT / "target/inspection/corpus"
LARGEST = 4_096
SHORTEST = 64
# Packets of a long message have one of these sizes.
UNITS = (4_096, 2_048, 1_024)
# The part of an embedded packet that is code, at least.
EMBEDDED_PART = 0.25
# Installed files are of many types, so they are drawn as often as this many generators.
INSTALLED_WEIGHT = 6.0


class Corpus:
    """The pieces of one split and kind, by generator."""

    def __init__(self, split, kind, without=()):
        rows = csv.reader((CORPUS / "manifest.tsv").open(), delimiter="\t")
        self.pieces = {}
        for piece_split, piece_kind, generator, _, _, digest in rows:
            if piece_split == split and piece_kind == kind and generator not in without:
                data = numpy.frombuffer((CORPUS / digest).read_bytes(), dtype=numpy.uint8)
                if len(data) >= SHORTEST:
                    self.pieces.setdefault(generator, []).append(data)
        self.generators = sorted(self.pieces)
        weights = numpy.array([INSTALLED_WEIGHT if name == "installed" else 1.0 for name in self.generators])
        self.weights = weights / weights.sum()
        # A large program says more than a small one, but not in proportion to its size.
        self.piece_weights = {
            name: (sizes := numpy.sqrt([len(piece) for piece in pieces])) / sizes.sum() for name, pieces in self.pieces.items()
        }

    def replace(self, generator, pieces):
        """Other pieces of a generator, all of them equally likely."""
        self.pieces[generator] = [numpy.frombuffer(piece, dtype=numpy.uint8) for piece in pieces]
        self.piece_weights[generator] = numpy.full(len(pieces), 1 / len(pieces))

    def draw(self, chance, length):
        """`length` bytes at most, from anywhere in a piece, and its generator."""
        name = self.generators[chance.choice(len(self.generators), p=self.weights)]
        piece = self.pieces[name][chance.choice(len(self.pieces[name]), p=self.piece_weights[name])]
        start = chance.integers(0, max(len(piece) - length, 0) + 1)
        return piece[start:start + length], name


def size(chance, largest=LARGEST):
    """Half of the packets are those of a long message; the others have any size from 64 bytes on, small ones as often as large."""
    if chance.random() < 0.5:
        return min(int(chance.choice(UNITS)), largest)
    return int(numpy.exp(chance.uniform(numpy.log(SHORTEST), numpy.log(largest + 1))))


def clean(corpus, chance, largest=LARGEST):
    return corpus.draw(chance, size(chance, largest))


whole = clean


def embedded(code, data, chance, largest=LARGEST):
    """Clean bytes with one run of code in them, anywhere."""
    length = size(chance, largest)
    around, _ = data.draw(chance, length)
    part = chance.uniform(EMBEDDED_PART, 1.0)
    inside, name = code.draw(chance, int(numpy.ceil(part * len(around))))
    inside = inside[:len(around)]
    packet = around.copy()
    start = chance.integers(0, len(packet) - len(inside) + 1)
    packet[start:start + len(inside)] = inside
    return packet, name


def kinds(code, data, chance):
    """What draws the next packet of each kind."""
    return {
        "clean": lambda: clean(data, chance), "whole": lambda: whole(code, chance), "embedded": lambda: embedded(code, data, chance),
    }


def batch(draw, count, largest=LARGEST):
    """`count` packets as rows of `largest` bytes, their lengths, and their generators."""
    rows = numpy.zeros((count, largest), dtype=numpy.uint8)
    lengths, names = numpy.zeros(count, dtype=numpy.int32), []
    for row in range(count):
        packet, name = draw()
        rows[row, :len(packet)] = packet
        lengths[row] = len(packet)
        names.append(name)
    return rows, lengths, names
