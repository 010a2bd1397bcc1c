"""A piece of the corpus: bytes of one program or of one generator, in one of the three splits."""

import dataclasses
import hashlib
import pathlib


@dataclasses.dataclass(frozen=True)
class Piece:
    """`kind` is code or clean; `generator` is compiler and target, or the type of data."""

    split: str
    kind: str
    generator: str
    name: str
    data: bytes

    @property
    def digest(self):
        return hashlib.sha256(self.data).hexdigest()


def split_of(name):
    """A split that depends on the name alone: half train, a sixth validate, a third test."""
    point = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") % 6
    return "train" if point < 3 else "validate" if point == 3 else "test"


def owners():
    """The Debian package of each installed file."""
    found = {}
    for listing in pathlib.Path("/var/lib/dpkg/info").glob("*.list"):
        for line in listing.read_text().splitlines():
            found[line] = listing.stem.split(":")[0]
    return found
