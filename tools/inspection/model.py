"""The model of the inspection service, as numbers; crates/service/src/inspect has the exact definition.

Each byte of a packet has a score: the sum of one entry of four tables, which are read at the classes of the byte and of one before it
(1, 2, 3 and 4 bytes before). A byte that repeats what was there shortly before has a fixed score instead. The score of a packet is that
of its best run of bytes. Its sum is the evidence, in units of 1/SCALE bit, that the run is code.
"""

import dataclasses
import pathlib
import tomllib

import jax
import jax.numpy as jnp
import numpy

FILE = pathlib.Path(__file__).with_name("model.toml")
# Bits of the class of the byte before, of the byte itself, and of either byte in the other tables.
BEFORE_BITS, OWN_BITS, KIND_BITS = 5, 7, 5
DISTANCES = (2, 3, 4)
PAIRS = 1 << (BEFORE_BITS + OWN_BITS)
SKIPS = 1 << (2 * KIND_BITS + 1)
# A byte is repeated if it and the two before it are equal to those some bytes before.
REPEAT_LENGTH, REPEAT_DISTANCES = 3, range(1, 17)
SCALE, LARGEST = 8, 63


@dataclasses.dataclass(frozen=True)
class Classes:
    """Class of each byte: as the byte before, as the byte itself, and in the other tables."""

    before: jax.Array
    own: jax.Array
    kind: jax.Array


def shifted(rows, distance):
    """The bytes `distance` before; what is there in front of a packet does not count."""
    return jnp.pad(rows, ((0, 0), (distance, 0)))[:, :rows.shape[1]]


def addresses(rows, classes):
    """Per byte: the address in each table, where the entry behind the last is for a byte that has none before it; and whether the
    byte is repeated."""
    at = jnp.arange(rows.shape[1])[None, :]
    before = shifted(rows, 1)
    pair = (classes.before[before].astype(jnp.int32) << OWN_BITS) | classes.own[rows].astype(jnp.int32)
    found = [jnp.where(at >= 1, pair, PAIRS)]
    kind = classes.kind[rows].astype(jnp.int32)
    for distance in DISTANCES:
        same = (rows == shifted(rows, distance)).astype(jnp.int32)
        skip = (same << (2 * KIND_BITS)) | (shifted(kind, distance) << KIND_BITS) | kind
        found.append(jnp.where(at >= distance, skip, SKIPS))
    repeated = jnp.zeros(rows.shape, bool)
    for distance in REPEAT_DISTANCES:
        equal = (rows == shifted(rows, distance)) & (at >= distance)
        run = equal
        for back in range(1, REPEAT_LENGTH):
            run = run & shifted(equal, back)
        repeated = repeated | run
    return found, repeated


def byte_scores(tables, repeated_score, rows, lengths, classes):
    found, repeated = addresses(rows, classes)
    total = 0
    for table, address in zip(tables, found, strict=True):
        total = total + jnp.concatenate([table, jnp.zeros(1, table.dtype)])[address]
    total = jnp.where(repeated, repeated_score, total)
    at = jnp.arange(rows.shape[1])[None, :]
    return jnp.where((at >= 1) & (at < lengths[:, None]), total, 0)


def best_runs(scores):
    """The largest sum of a run of bytes, at least 0."""
    sums = jnp.cumsum(scores, 1)
    before = jnp.pad(sums, ((0, 0), (1, 0)))[:, :-1]
    return jnp.max(sums - jax.lax.cummin(before, axis=1), 1)


@jax.jit
def _score(tables, repeated, before, own, kind, rows, lengths):
    return best_runs(byte_scores(tables, repeated, rows, lengths, Classes(before, own, kind)))


def score(tables, repeated, classes, rows, lengths, unit=500):
    """Scores of many packets."""
    found = [
        numpy.asarray(_score(tables, repeated, classes.before, classes.own, classes.kind, rows[at:at + unit], lengths[at:at + unit]))
        for at in range(0, len(rows), unit)
    ]
    return numpy.concatenate(found)


@dataclasses.dataclass(frozen=True)
class Model:
    """The integers of model.toml."""

    classes: Classes
    tables: list
    repeated: int
    threshold: int

    @classmethod
    def read(cls):
        text = tomllib.loads(FILE.read_text())
        array = lambda name: jnp.array(text[name], dtype=jnp.int32)  # noqa: E731
        classes = Classes(array("before"), array("own"), array("kind"))
        return cls(classes, [array("pairs"), *(array(f"skips_{distance}") for distance in DISTANCES)], text["repeated"], text["threshold"])

    def score(self, rows, lengths):
        return score(self.tables, self.repeated, self.classes, rows, lengths)

    def write(self, manifest):
        names = ["before", "own", "kind", "pairs", *(f"skips_{distance}" for distance in DISTANCES)]
        arrays = [self.classes.before, self.classes.own, self.classes.kind, *self.tables]
        text = (
            "# The model of the inspection service, trained by tools/inspection/train.py. tools/inspection/tables.py writes the\n"
            "# tables of both halves from it. docs/inspection.md has what it reaches.\n\n"
            f'# SHA-256 of manifest.tsv.\nmanifest = "{manifest}"\n\n'
            f"# A packet is flagged if its score is at least this, in 1/{SCALE} bit.\nthreshold = {self.threshold}\n"
            f"# The score of a byte that is repeated.\nrepeated = {self.repeated}\n"
        )
        for name, array in zip(names, arrays, strict=True):
            rows = (", ".join(map(str, numpy.asarray(array[at:at + 32]))) for at in range(0, len(array), 32))
            text += f"\n{name} = [\n" + "".join(f"    {row},\n" for row in rows) + "]\n"
        FILE.write_text(text)
