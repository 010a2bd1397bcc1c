"""Reference model of kv_control: Sealed, the ends of streams, and both sides of a state transfer.

An independent implementation of the rules of crates/engines/kv/src/view_change.rs, message.rs and transfer.rs.
"""

import struct

NODES = 16
STREAMS = 8
WAYS = 32
END = 0xFFFF_FFFF
CHUNK_BYTES = 1280
CHUNKS = 16
SCAN = 1024
SESSION_BYTES = 8 + 24 * 16
WORD = (1 << 64) - 1

CONSTANTS = (0x243F6A8885A308D3, 0x13198A2E03707344, 0xA4093822299F31D0, 0x082EFA98EC4E6C89)
ROTATIONS = ((2, 24, 27, 11), (60, 10, 17, 5), (22, 20, 53, 39), (38, 1, 39, 44))


def rotate(word, by):
    return (word << by | word >> (64 - by)) & WORD


def mix(word):
    for constant, (a, b, d, e) in zip(CONSTANTS, ROTATIONS, strict=True):
        word ^= constant
        word ^= rotate(word, a) ^ rotate(word, b)
        word ^= rotate(word, d) & ~rotate(word, e)
    return word


def place(key, mask):
    """(bucket, way, tag) of an 8-byte key."""
    hashed = mix(key)
    return hashed & mask, hashed >> 32 & 31, hashed >> 53 or 1


def members(bits):
    return [node for node in range(STREAMS) if bits >> node & 1]


def leader(full, partition):
    return members(full)[partition % len(members(full))]


class Sealed:
    """A member's report: base, its members, accepted lengths, and cuts [(epoch, lengths)], newest first."""

    def __init__(self, epoch, base, base_members, accepted, cuts, heard=0):
        self.epoch, self.base, self.base_members = epoch, base, base_members
        self.accepted, self.cuts, self.heard = list(accepted), list(cuts), heard

    def encode(self):
        lengths = lambda some: struct.pack(">16Q", *some, *[0] * (NODES - len(some)))  # noqa: E731
        head = struct.pack(">IIHHB3x", self.epoch, self.base, self.base_members, self.heard, len(self.cuts))
        cuts = b"".join(struct.pack(">I4x", epoch) + lengths(some) for epoch, some in self.cuts)
        return head + lengths(self.accepted) + cuts


def parse_sealed(data):
    """The decoded report; None if it is malformed."""
    if len(data) < 144:
        return None
    epoch, base, base_members, heard, count = struct.unpack(">IIHHB", data[:13])
    if count > 4 or len(data) != 144 + 136 * count or base == 0 or base >= epoch:
        return None
    cuts = []
    for at in range(144, len(data), 136):
        (cut,) = struct.unpack(">I", data[at : at + 4])
        if cut == 0:
            return None
        cuts.append((cut, struct.unpack(">16Q", data[at + 8 : at + 136])[:STREAMS]))
    accepted = struct.unpack(">16Q", data[16:144])[:STREAMS]
    return Sealed(epoch, base, base_members, accepted, cuts, heard)


class ViewChange:
    def __init__(self):
        self.full, self.gathered, self.node = 0, {}, 0

    def begin(self, node, full, own):
        self.node, self.full, self.gathered = node, full, {node: own}

    def add(self, sender, sealed):
        if self.full >> sender & 1 and sender not in self.gathered:
            self.gathered[sender] = sealed

    def heard(self):
        return sum(1 << node for node in self.gathered)

    def missing(self):
        return self.full & ~self.heard()

    def decide(self):
        """The decision: "undecided", "lost" or the lengths of the streams."""
        if not self.gathered or self.missing():
            return "undecided"
        everyone = [self.gathered[node] for node in sorted(self.gathered)]
        own = self.gathered[self.node]
        newest = max(sealed.base for sealed in everyone)
        base_members = next(sealed.base_members for sealed in everyone if sealed.base == newest)
        if not base_members >> self.node & 1:
            return "lost"
        if self.full & ~base_members:
            return "undecided"
        if own.base < newest:
            newer = [sealed for sealed in everyone if sealed.base > own.base]
            cuts = [lengths for sealed in newer for epoch, lengths in sealed.cuts if epoch == own.base]
            if not cuts:
                return "lost"
            lengths = list(cuts[0])
        elif all(sealed.base == newest for sealed in everyone):
            lengths = [min(sealed.accepted[stream] for sealed in everyone) for stream in range(STREAMS)]
        else:
            lengths = [0] * STREAMS
        if any(length > own.accepted[stream] for stream, length in enumerate(lengths)):
            return "lost"
        return lengths


def slot_record(version, key, value):
    return struct.pack(">QH6xQ", version, len(value), key) + value + bytes(-len(value) % 8)


def session_record(client, places):
    return struct.pack(">Q", client) + b"".join(struct.pack(">QQB7x", *place) for place in places)


def chunk(epoch, attempt, sessions, last, start, following, tag, records):
    return struct.pack(">IIBB2xII4xQ", epoch, attempt, sessions, last, start, following, tag) + records


def state_request(epoch, attempt, sessions, start):
    return struct.pack(">IIB3xI", epoch, attempt, sessions, start)


def answer(epoch, attempt, sessions, start, tag, records, stop, end):
    """The chunks of an answer. `records` are (position, bytes) from `start` on, found in a scan up to `stop`."""
    after = END if end else stop
    chunks, some, begins = [], b"", start
    for position, record in records:
        if len(some) + len(record) > CHUNK_BYTES - 32:
            last = len(chunks) == CHUNKS - 1
            chunks.append(chunk(epoch, attempt, sessions, last, begins, position, tag, some))
            if last:
                return chunks
            some, begins = b"", position
        some += record
    return [*chunks, chunk(epoch, attempt, sessions, 1, begins, after, tag, some)]


def answer_buckets(epoch, attempt, start, tag, table, mask, leads):
    """The chunks for buckets; `table` is {(bucket, way): (version, key, value)}."""
    stop = min(start // WAYS + SCAN, mask + 1) * WAYS
    records = [
        (bucket * WAYS + way, slot_record(*table[bucket, way]))
        for bucket, way in sorted(table)
        if start <= bucket * WAYS + way < stop and leads(bucket % 256)
    ]
    end = stop == (mask + 1) * WAYS
    return answer(epoch, attempt, 0, start, tag, records, stop, end)


def answer_sessions(epoch, attempt, start, tag, sessions):
    """The chunks for sessions; `sessions` is a list of records, None for an unused slot."""
    stop = min(start + SCAN, len(sessions))
    records = [(at, sessions[at]) for at in range(start, stop) if sessions[at] is not None]
    return answer(epoch, attempt, 1, start, tag, records, stop, stop >= len(sessions))
