"""kv: the whole engine, event by event: its replies, its messages to other nodes, and their times."""

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly

import bench
from axi_model import AxiSlave
from streams import Bench, beats, packets
from structs import pack, unpack

REQUEST, REPLY, WRITE, ACKNOWLEDGE, COMMIT, SEALED, STATE_REQUEST, STATE_CHUNK = range(1, 9)
GET, PUT, DELETE, COMPARE_AND_SET = range(1, 5)
OK, NOT_FOUND, MISMATCH, TABLE_FULL, BUSY, NOT_LEADER, NOT_SERVING, SESSIONS_FULL, BAD_REQUEST = range(9)
TIMER_LEAD, TIMER_SEAL, TIMER_TRANSFER = 16, 17, 18
MASK = 0xFF
NEVER = (1 << 48) - 1
WORD = (1 << 64) - 1
CONSTANTS = (0x243F6A8885A308D3, 0x13198A2E03707344, 0xA4093822299F31D0, 0x082EFA98EC4E6C89)
ROTATIONS = ((2, 24, 27, 11), (60, 10, 17, 5), (22, 20, 53, 39), (38, 1, 39, 44))


def mix(x):
    def rotate(word, by):
        return (word << by | word >> (64 - by)) & WORD

    for salt, (a, b, d, e) in zip(CONSTANTS, ROTATIONS, strict=True):
        x ^= salt
        x ^= rotate(x, a) ^ rotate(x, b)
        x ^= rotate(x, d) & ~rotate(x, e)
    return x


def keys(partition_rule):
    """Keys whose partition satisfies the predicate."""
    return (key for key in range(1, 1 << 20) if partition_rule(mix(key) & 0xFF))


def big(value, length):
    return value.to_bytes(length, "big")


def uint(data, offset, length):
    """The big-endian integer in a message at an offset."""
    return int.from_bytes(data[offset : offset + length], "big")


def request(operation, key, client=7, number=1, value=b"", expected=0):
    return bytes([operation, 0]) + big(len(value), 2) + bytes(4) + big(client, 8) + big(number, 8) + big(expected, 8) + big(key, 8) + value


def write(epoch, number, committed, key, value=b"", client=9, req=None, operation=PUT, status=OK, version=None):
    version = epoch << 40 | number if version is None else version
    return (big(epoch, 4) + bytes([operation, status]) + big(len(value), 2) + big(number, 8) + big(committed, 8)
            + big(client, 8) + big(req or number, 8) + big(version, 8) + big(key, 8) + value)


def acknowledge(epoch, accepted, committed=0, gap=0, asks=0):
    return big(epoch, 4) + bytes([gap | asks << 1]) + bytes(3) + big(accepted, 8) + big(committed, 8)


def commit(epoch, committed):
    return big(epoch, 4) + bytes(4) + big(committed, 8)


def sealed(epoch, base, members, heard, accepted, cuts=()):
    text = big(epoch, 4) + big(base, 4) + big(members, 2) + big(heard, 2) + bytes([len(cuts), 0, 0, 0])
    pad = lambda lengths: b"".join(big(x, 8) for x in list(lengths) + [0] * (16 - len(lengths)))  # noqa: E731
    text += pad(accepted)
    for cut_epoch, lengths in cuts:
        text += big(cut_epoch, 4) + bytes(4) + pad(lengths)
    return text


def parse(message, data):
    """A message as a tuple, for comparison and readable output."""
    kind = message["message"]
    whom = ("reply", message["caller"]["port"]) if message["reply"] else ("to", message["to"])
    if kind == REPLY:
        return (*whom, "Reply", data[0], uint(data, 8, 8), uint(data, 16, 8), uint(data, 24, 8), data[40:])
    if kind == WRITE:
        return (*whom, "Write", uint(data, 0, 4), data[4], data[5], uint(data, 8, 8), uint(data, 16, 8), uint(data, 40, 8), uint(data, 48, 8),
                data[56:])
    if kind == ACKNOWLEDGE:
        return (*whom, "Acknowledge", uint(data, 0, 4), data[4], uint(data, 8, 8), uint(data, 16, 8))
    if kind == COMMIT:
        return (*whom, "Commit", uint(data, 0, 4), uint(data, 8, 8))
    return (*whom, kind, data)


class Sparse(dict):
    """Bytes that are zero until they are written."""

    def __getitem__(self, part):
        return bytes(self.get(index, 0) for index in range(part.start, part.stop))


class Engine(Bench):
    def __init__(self, dut, seed=1, latency=(8, 30), ready=0.9):
        super().__init__(dut, seed)
        self.latency, self.ready = latency, ready
        self.timers = {}
        self.out = []

    async def begin(self, bug=0, journal=0):
        dut = self.dut
        memory = AxiSlave(dut, "memory", 0, self.chance, self, latency=self.latency, ready=self.ready)
        memory.memory = Sparse()
        self.memory = memory
        cocotb.start_soon(self._memory(memory))
        await self.start(clear=600, event_i=0, payload_i=0, configuration_i=0, bucket_mask_i=MASK, acknowledge_after_memory_i=journal,
                         planted_bug_i=bug, retransmit_i=500_000, retransmit_max_i=16_000_000)
        self.messages = self.take("message", ["_o"])
        self.bodies = self.take("body", ["_o"])
        cocotb.start_soon(self._timers())

    async def _memory(self, memory):
        while True:
            memory.drive()
            await ReadOnly()
            memory.sample()
            await FallingEdge(self.dut.clk_i)

    async def _timers(self):
        while True:
            await ReadOnly()
            if int(self.dut.timer_valid_o.value):
                self.timers[int(self.dut.timer_tag_o.value)] = int(self.dut.timer_at_o.value)
            await FallingEdge(self.dut.clk_i)

    async def event(self, kind, data=b"", last=1, settle=True, **fields):
        item = pack("engine_event_t", kind=kind_number(kind), last=last, bytes=len(data), **fields)
        sender = cocotb.start_soon(self.send("event", [{"_i": item}]))
        if data:
            await self.send("payload", [{"_i": beat} for beat in beats(data)])
        await sender
        if settle:
            return await self.settled()

    async def settled(self):
        await self.idle(20_000)
        out = []
        done = packets([beat for (beat,) in self.bodies])
        self.bodies.clear()
        for (raw,) in self.messages:
            message = unpack("engine_message_t", raw)
            data = done.pop(0) if message["bytes"] else b""
            assert len(data) == message["bytes"], message
            out.append(parse(message, data))
        self.messages.clear()
        assert not done
        return out

    async def configure(self, node, epoch, full, joining=0, lease=NEVER, settle=True):
        self.dut.configuration_i.value = pack(
            "engine_configuration_t", node=node, epoch=epoch, full=full, joining=joining, lease_until=lease)
        return await self.event("EventConfigure", settle=settle)

    async def call(self, data, port=5, **options):
        caller = {"kind": 0, "mac": 0xABC, "address": 0x0A000001, "port": port}
        return await self.event("EventCall", data, message=REQUEST, caller=caller, **options)

    async def deliver(self, message, data, sender=1, **options):
        return await self.event("EventDeliver", data, message=message, **{"from": sender}, **options)

    async def fire(self, tag):
        self.now = max(self.now, self.timers.pop(tag))
        await self.cycles(2)
        return await self.event("EventTimer", tag=tag)

    def status(self):
        return unpack("engine_status_t", self.dut.status_o.value)


def kind_number(name):
    return ("EventReset", "EventConfigure", "EventCall", "EventDeliver", "EventDone", "EventTimer").index(name)


def reply(status, version=0, value=b"", client=7, number=1, port=5):
    return ("reply", port, "Reply", status, client, number, version, value)


@cocotb.test()
async def test_alone(dut):
    """A cluster of one node: all operations with each possible result, exactly once."""
    engine = Engine(dut)
    await engine.begin()
    assert await engine.call(request(GET, 1)) == [reply(NOT_SERVING)]
    assert await engine.configure(0, 1, 1) == []
    assert engine.status() == {"epoch": 1, "state": 3}
    v = lambda number: 1 << 40 | number  # noqa: E731
    assert await engine.call(request(GET, 1)) == [reply(NOT_FOUND)]
    for length in (1, 64, 65, 200, 1024):
        value = engine.chance.randbytes(length)
        number = engine.events["writes_led"] + 1
        assert await engine.call(request(PUT, 1, number=number, value=value)) == [reply(OK, v(number), number=number)]
        assert await engine.call(request(GET, 1)) == [reply(OK, v(number), value)], length
    assert await engine.call(request(PUT, 1, number=5, value=b"other")) == [reply(OK, v(5), number=5)], "a duplicate"
    assert await engine.call(request(DELETE, 2, number=6)) == [reply(NOT_FOUND, 0, number=6)]
    assert await engine.call(request(COMPARE_AND_SET, 1, number=7, value=b"x", expected=3)) == [
        reply(MISMATCH, v(5), number=7)]
    assert await engine.call(request(COMPARE_AND_SET, 1, number=8, value=b"x", expected=v(5))) == [
        reply(OK, v(8), number=8)]
    assert await engine.call(request(COMPARE_AND_SET, 2, number=9, value=b"y", expected=0)) == [reply(OK, v(9), number=9)]
    assert await engine.call(request(DELETE, 1, number=10)) == [reply(OK, v(10), number=10)]
    assert await engine.call(request(GET, 1)) == [reply(NOT_FOUND)]
    assert await engine.call(request(GET, 2)) == [reply(OK, v(9), b"y")]
    assert await engine.call(request(DELETE, 1, number=10)) == [reply(OK, v(10), number=10)]
    assert await engine.call(request(PUT, 1, number=11)) == [reply(BAD_REQUEST, 0, number=11)]
    engine.now += 10
    assert await engine.configure(0, 1, 1, lease=engine.now) == []
    assert await engine.call(request(GET, 2)) == [reply(NOT_SERVING)]
    assert engine.events["duplicates_answered"] == 2 and engine.events["entries_applied"] == 8, engine.events


@cocotb.test()
async def test_leader(dut):
    """Replication at a leader with two followers: commits, committed lengths in messages, gaps, bursts and timers."""
    engine = Engine(dut, 2)
    await engine.begin()
    assert await engine.configure(0, 1, 7) == []
    mine = keys(lambda partition: partition % 3 == 0)
    other = next(keys(lambda partition: partition % 3 == 1))
    key = next(mine)
    v = lambda number: 1 << 40 | number  # noqa: E731
    both = lambda *fields: ("to", 6, *fields)  # noqa: E731
    assert await engine.call(request(PUT, other, value=b"z")) == [reply(NOT_LEADER)]
    assert await engine.call(request(PUT, key, value=b"abc")) == [both("Write", 1, PUT, OK, 1, 0, v(1), key, b"abc")]
    armed = engine.timers[TIMER_LEAD]
    assert abs(armed - engine.now - 500_000) < 1_000
    assert await engine.call(request(PUT, key, value=b"abc")) == [], "it is in the window"
    assert await engine.call(request(GET, key)) == [reply(NOT_FOUND)], "nothing undecided is seen"
    assert await engine.deliver(ACKNOWLEDGE, acknowledge(1, 1), sender=1) == []
    out = await engine.deliver(ACKNOWLEDGE, acknowledge(1, 1), sender=2)
    assert sorted(out) == [reply(OK, v(1)), both("Commit", 1, 1)]
    assert await engine.call(request(GET, key)) == [reply(OK, v(1), b"abc")]
    # The next write carries the committed length.
    writes = {}
    for number in range(2, 102):
        value = engine.chance.randbytes(engine.chance.choice((1, 64, 100)))
        operation = PUT
        writes[number] = (next(mine), value)
        out = await engine.call(request(operation, writes[number][0], client=1000 + number, number=1, value=value))
        assert out == [both("Write", 1, PUT, OK, number, 1, v(number), *writes[number])], out
    again = lambda node, number, committed: (  # noqa: E731
        "to", 1 << node, "Write", 1, PUT, OK, number, committed, v(number), *writes[number])
    assert await engine.deliver(ACKNOWLEDGE, acknowledge(1, 101), sender=1) == []
    out = await engine.deliver(ACKNOWLEDGE, acknowledge(1, 4, gap=1), sender=2)
    assert [x for x in out if x[0] == "to"] == [again(2, number, 4) for number in range(5, 69)] + [both("Commit", 1, 4)]
    assert [x for x in out if x[0] != "to"] == [reply(OK, v(number), client=1000 + number) for number in (2, 3, 4)]
    assert await engine.deliver(ACKNOWLEDGE, acknowledge(1, 4, gap=1), sender=2) == [], "the burst is on its way"
    out = await engine.deliver(ACKNOWLEDGE, acknowledge(1, 68), sender=2)
    assert [x for x in out if x[0] == "to"] == [again(2, number, 68) for number in range(69, 102)] + [both("Commit", 1, 68)]
    assert await engine.deliver(ACKNOWLEDGE, acknowledge(1, 68, 60, asks=1), sender=2) == [("to", 4, "Commit", 1, 68)]
    assert await engine.deliver(ACKNOWLEDGE, acknowledge(1, 102), sender=2) == []
    assert engine.events["dropped_contradiction"] == 1
    # The timer fires: first too early, then when a retransmission is due, then later.
    assert await engine.fire(TIMER_LEAD) == [], "there was progress since"
    assert await engine.fire(TIMER_LEAD) == [again(2, number, 68) for number in range(69, 102)]
    since = engine.now
    assert abs(engine.timers[TIMER_LEAD] - since - 1_000_000) < 20_000
    assert await engine.deliver(ACKNOWLEDGE, acknowledge(1, 101), sender=2, last=0) != []
    assert await engine.deliver(COMMIT, commit(2, 1), sender=2) == [both("Commit", 1, 101)]
    assert engine.events["dropped_future_epoch"] == 1
    assert await engine.fire(TIMER_LEAD) == [] and TIMER_LEAD not in engine.timers
    for number in (1, 50, 101):
        key, value = writes.get(number, (key, b"abc"))
        assert await engine.call(request(GET, key)) == [reply(OK, v(number), value)]


@cocotb.test()
async def test_slow_path(dut):
    """Compare-and-set and delete of a key in the window, and a full bucket."""
    engine = Engine(dut, 3)
    await engine.begin()
    assert await engine.configure(0, 1, 3) == []
    v = lambda number: 1 << 40 | number  # noqa: E731
    full = list(keys(lambda partition: partition == 4))[:40]
    key = full[0]
    number = 0

    async def ask(operation, key, status, version=None, **options):
        nonlocal number
        number += 1
        out = await engine.call(request(operation, key, client=number, **options))
        value = options.get("value", b"") if status == OK else b""
        version = v(number) if version is None else version
        assert [x[:-5] + x[-3:] for x in out] == [("to", 2, "Write", 1, operation, status, version, key, value)], out

    await ask(DELETE, key, NOT_FOUND, 0)
    await ask(PUT, key, OK, value=b"1")
    await ask(COMPARE_AND_SET, key, MISMATCH, v(2), value=b"x", expected=v(1))
    await ask(COMPARE_AND_SET, key, OK, value=b"2", expected=v(2))
    await ask(DELETE, key, OK)
    await ask(DELETE, key, NOT_FOUND, 0)
    await ask(COMPARE_AND_SET, key, MISMATCH, 0, value=b"x", expected=v(4))
    await ask(COMPARE_AND_SET, key, OK, value=b"3", expected=0)
    out = await engine.deliver(ACKNOWLEDGE, acknowledge(1, number))
    assert len(out) == number + 1
    for other in full[1:32]:
        await ask(PUT, other, OK, value=b"v" * 70)
    number += 1
    assert await engine.call(request(PUT, full[32], client=number, value=b"w")) == [reply(BUSY, client=number)]
    number -= 1
    await ask(PUT, full[5], OK, value=b"again")
    out = await engine.deliver(ACKNOWLEDGE, acknowledge(1, number))
    assert ("to", 2, "Commit", 1, number) in out
    await ask(PUT, full[32], TABLE_FULL, 0, value=b"w")
    await ask(PUT, full[7], OK, value=b"again")
    await ask(DELETE, full[9], OK)
    await engine.deliver(ACKNOWLEDGE, acknowledge(1, number))
    await ask(PUT, full[33], OK, value=b"w")
    await engine.deliver(ACKNOWLEDGE, acknowledge(1, number))
    assert await engine.call(request(GET, full[33])) == [reply(OK, v(number), b"w")]
    assert await engine.call(request(GET, full[9])) == [reply(NOT_FOUND)]
    assert engine.events["table_full"] == 1 and engine.events["refused_busy"] == 1
    assert engine.events["applies_without_room"] == 0


@cocotb.test()
async def test_follower(dut):
    """A follower: order, gaps, duplicates, waiting reads, and its timer."""
    engine = Engine(dut, 4)
    await engine.begin()
    assert await engine.configure(0, 1, 3) == []
    theirs = keys(lambda partition: partition % 2 == 1)
    mine = next(keys(lambda partition: partition % 2 == 0))
    key = next(theirs)
    v = lambda number: 1 << 40 | number  # noqa: E731
    ack = lambda flags, accepted, committed: ("to", 2, "Acknowledge", 1, flags, accepted, committed)  # noqa: E731
    assert await engine.deliver(WRITE, write(1, 1, 0, key, b"one")) == [ack(0, 1, 0)]
    assert abs(engine.timers[1] - engine.now - 500_000) < 1_000
    assert await engine.call(request(GET, key)) == []
    assert await engine.deliver(WRITE, write(1, 3, 0, key, b"three")) == [ack(1, 1, 0)]
    assert await engine.deliver(WRITE, write(1, 1, 0, key, b"one")) == [ack(0, 1, 0)]
    assert await engine.deliver(WRITE, write(1, 2, 0, key, b"two" * 100), last=0) == []
    assert await engine.call(request(GET, key, number=2)) == [ack(0, 2, 0)], "an earlier batch is ended by any that ends"
    assert await engine.deliver(COMMIT, commit(1, 1)) == [reply(OK, v(1), b"one")]
    out = await engine.deliver(WRITE, write(1, 3, 2, key, b"three"))
    assert sorted(out) == [reply(OK, v(2), b"two" * 100, number=2), ack(0, 3, 2)]
    assert await engine.deliver(WRITE, write(1, 4, 2, mine, b"x")) == [ack(0, 3, 2)]
    assert engine.events["dropped_contradiction"] == 1
    assert await engine.deliver(WRITE, write(1, 4, 2, key, b"x", version=v(5))) == [ack(0, 3, 2)]
    assert await engine.deliver(WRITE, write(2, 4, 2, key, b"x")) == []
    assert await engine.deliver(WRITE, write(1, 4, 9, key, operation=DELETE)) == [ack(0, 4, 3)]
    assert await engine.call(request(GET, key, number=3)) == []
    assert await engine.fire(1) == []
    assert await engine.fire(1) == [ack(2, 4, 3)]
    assert await engine.deliver(COMMIT, commit(1, 4)) == [reply(NOT_FOUND, number=3)]
    assert await engine.fire(1) == [] and 1 not in engine.timers
    assert engine.events["writes_followed"] == 4 and engine.events["reads_waited"] == 3, engine.events
    # A batch of many writes, and reads from the window while these are applied.
    chosen = [next(theirs) for _ in range(30)]
    for index, key in enumerate(chosen):
        await engine.deliver(WRITE, write(1, 5 + index, 4, key, bytes([index]) * 1000), last=index == 29, settle=False)
    assert await engine.settled() == [ack(0, 34, 4)]
    await engine.deliver(COMMIT, commit(1, 34), settle=False)
    for index, key in enumerate(chosen):
        await engine.call(request(GET, key, number=index + 10), settle=False)
    out = await engine.settled()
    assert sorted(out) == [reply(OK, v(5 + index), bytes([index]) * 1000, number=index + 10) for index in range(30)], out
    dut._log.info("%d reads of %d from the window", engine.events["reads_from_window"], 30)


@cocotb.test()
async def test_view_change(dut):
    """View changes: the cut, waiting requests, undecided entries, and a node that is lost."""
    engine = Engine(dut, 5)
    await engine.begin()
    assert await engine.configure(0, 1, 3) == []
    v = lambda number, epoch=1: epoch << 40 | number  # noqa: E731
    theirs = next(keys(lambda partition: partition % 2 == 1))
    mine = list(keys(lambda partition: partition % 2 == 0))[:3]
    await engine.call(request(PUT, mine[0], client=1, value=b"a"))
    await engine.call(request(PUT, mine[1], client=2, value=b"b"))
    await engine.call(request(PUT, mine[2], client=3, value=b"c"))
    await engine.deliver(WRITE, write(1, 1, 0, theirs, b"d"))
    await engine.deliver(WRITE, write(1, 2, 0, theirs, b"e"))
    assert await engine.call(request(GET, theirs, client=4)) == []
    own = lambda heard, accepted=(3, 2), cuts=(), epoch=2, base=1: sealed(epoch, base, 3, heard, accepted, cuts)  # noqa: E731
    out = await engine.configure(0, 2, 3)
    assert out == [reply(NOT_SERVING, client=4), ("to", 2, SEALED, own(1))], out
    assert engine.status() == {"epoch": 2, "state": 3}
    assert await engine.call(request(GET, theirs)) == [reply(NOT_SERVING)]
    assert await engine.deliver(WRITE, write(1, 3, 0, theirs, b"f")) == []
    assert await engine.fire(TIMER_SEAL) == [("to", 2, SEALED, own(1))]
    assert await engine.deliver(SEALED, sealed(2, 1, 3, 2, (1, 2))[:-1]) == [] and engine.events["dropped_malformed"] == 1
    assert await engine.deliver(SEALED, sealed(3, 1, 3, 2, (1, 2))) == []
    out = await engine.deliver(SEALED, sealed(2, 1, 3, 2, (1, 2)))
    assert sorted(out) == sorted([
        ("to", 2, SEALED, own(3)), reply(OK, v(1), client=1), reply(NOT_SERVING, client=2), reply(NOT_SERVING, client=3)]), out
    assert engine.events["view_changes"] == 1 and engine.events["entries_cut"] == 2
    assert await engine.call(request(GET, theirs)) == [reply(OK, v(2), b"e")]
    assert await engine.call(request(GET, mine[0])) == [reply(OK, v(1), b"a")]
    assert await engine.call(request(GET, mine[1])) == [reply(NOT_FOUND)]
    assert await engine.call(request(PUT, mine[1], client=2, value=b"B")) == [
        ("to", 2, "Write", 2, PUT, OK, 1, 0, v(1, 2), mine[1], b"B")]
    # A repeated report of a node that lacks this node's report is answered; the streams do not change.
    assert await engine.deliver(SEALED, sealed(2, 1, 3, 2, (1, 2))) == [("to", 2, SEALED, own(3))]
    assert await engine.deliver(SEALED, sealed(2, 1, 3, 3, (1, 2))) == []
    # A member with an older base: the writes since then are cut off.
    out = await engine.configure(0, 4, 3)
    assert out == [("to", 2, SEALED, own(1, (1, 0), [(1, (1, 2))], 4, 2))], out
    out = await engine.deliver(SEALED, sealed(4, 1, 3, 3, (1, 2)))
    assert out == [reply(NOT_SERVING, client=2)]
    assert await engine.call(request(GET, mine[1])) == [reply(NOT_FOUND)]
    # From here on the node is alone in the view, and then it is removed.
    assert await engine.configure(0, 5, 1) == []
    assert await engine.call(request(PUT, mine[1], client=2, value=b"B")) == [reply(OK, v(1, 5), client=2)]
    assert await engine.configure(0, 5, 3) == [] and engine.events["configurations_ignored"] == 1
    assert await engine.configure(0, 6, 2) == []
    assert engine.status() == {"epoch": 6, "state": 0}
    assert await engine.configure(0, 7, 3) == []
    assert engine.status() == {"epoch": 7, "state": 4}
    assert await engine.event("EventReset") == []
    assert engine.status() == {"epoch": 0, "state": 0}
    assert await engine.configure(0, 1, 1) == []
    assert await engine.call(request(GET, mine[0])) == [reply(NOT_FOUND)]
    assert await engine.call(request(PUT, mine[1], client=2, value=b"B")) == [reply(OK, v(1), client=2)]


@cocotb.test()
async def test_join(dut):
    """A state transfer: the engine sends the state as donor, and then, after a reset, receives it as joining node."""
    engine = Engine(dut, 6, latency=(4, 10), ready=1)
    await engine.begin()
    v = lambda number, epoch=1: epoch << 40 | number  # noqa: E731
    assert await engine.configure(0, 1, 1) == []
    content = {}
    some = keys(lambda partition: True)
    for number in range(1, 30):
        key, value = next(some), engine.chance.randbytes(engine.chance.choice((1, 64, 300, 1024)))
        content[key] = v(number), value
        assert await engine.call(request(PUT, key, client=number % 5, number=number, value=value)) != []
    assert await engine.configure(0, 2, 1, joining=2) == []
    chunks = {}
    for sessions in (0, 1):
        data = big(2, 4) + big(0, 4) + bytes([sessions, 0, 0, 0]) + big(0, 4)
        out = await engine.deliver(STATE_REQUEST, data)
        assert all(x[:3] == ("to", 2, STATE_CHUNK) for x in out)
        chunks[sessions] = [x[3] for x in out]
        assert [x[9] & 1 for x in chunks[sessions]][-1] == 1
    dut._log.info("%d and %d chunks", len(chunks[0]), len(chunks[1]))
    assert engine.events["chunks_sent"] == len(chunks[0]) + len(chunks[1])
    await engine.event("EventReset")
    state_request = lambda attempt, sessions, position=0: (  # noqa: E731
        "to", 1, STATE_REQUEST, big(2, 4) + big(attempt, 4) + bytes([sessions, 0, 0, 0]) + big(position, 4))
    assert await engine.configure(1, 2, 1, joining=2) == [state_request(1, 0)]
    assert engine.status() == {"epoch": 2, "state": 1}
    key = next(keys(lambda partition: True))
    out = await engine.deliver(WRITE, write(2, 1, 0, key, b"newer"), sender=0)
    assert out == [("to", 1, "Acknowledge", 2, 0, 1, 0)]
    assert await engine.fire(TIMER_TRANSFER) == [state_request(2, 0)]
    for index, chunk in enumerate(chunks[0]):
        out = await engine.deliver(STATE_CHUNK, chunk[:4] + big(2, 4) + chunk[8:], sender=0)
        assert out == ([] if index + 1 < len(chunks[0]) else [state_request(3, 1)]), out
    for index, chunk in enumerate(chunks[1]):
        assert await engine.deliver(STATE_CHUNK, chunk[:4] + big(3, 4) + chunk[8:], sender=0) == []
    assert engine.status() == {"epoch": 2, "state": 2}
    assert await engine.deliver(COMMIT, commit(2, 1), sender=0) == []
    content[key] = v(1, 2), b"newer"
    assert await engine.configure(1, 3, 3) == [("to", 1, SEALED, sealed(3, 2, 3, 2, (1, 0)))]
    assert await engine.deliver(SEALED, sealed(3, 2, 3, 3, (1, 0)), sender=0) == []
    assert engine.status() == {"epoch": 3, "state": 3}
    for key, (version, value) in content.items():
        assert await engine.call(request(GET, key)) == [reply(OK, version, value)]
    number, key = next((n, k) for n, k in enumerate(content, 1) if n > 20 and mix(k) & 1)
    out = await engine.call(request(PUT, key, client=number % 5, number=number, value=b"again"))
    assert out == [reply(OK, content[key][0], client=number % 5, number=number)], "the sessions have come, too"


@cocotb.test()
async def test_lease_ends(dut):
    """After its lease has expired a follower still accepts writes, but refuses reads, including those that wait."""
    engine = Engine(dut, 7)
    await engine.begin()
    assert await engine.configure(0, 1, 3, lease=1_000_000) == []
    key = next(keys(lambda partition: partition % 2 == 1))
    ack = lambda flags, accepted, committed: ("to", 2, "Acknowledge", 1, flags, accepted, committed)  # noqa: E731
    assert await engine.deliver(WRITE, write(1, 1, 0, key, b"one" * 100, operation=COMPARE_AND_SET)) == [ack(0, 1, 0)]
    assert await engine.call(request(GET, key)) == []
    assert await engine.deliver(WRITE, write(1, 2, 0, key, operation=DELETE)) == [ack(0, 2, 0)]
    engine.now = 10**10
    out = await engine.deliver(WRITE, write(1, 3, 1, key, b"three"))
    assert sorted(out) == [reply(NOT_SERVING), ack(0, 3, 1)], out
    assert await engine.call(request(GET, key)) == [reply(NOT_SERVING)]


@cocotb.test()
async def test_journal(dut):
    """A follower acknowledges an entry when memory has answered its journal write, and not before."""
    engine = Engine(dut, 8, latency=(100, 100), ready=1)
    await engine.begin(journal=1)
    assert await engine.configure(0, 1, 3) == []
    theirs = keys(lambda partition: partition % 2 == 1)
    ack = lambda flags, accepted, committed: ("to", 2, "Acknowledge", 1, flags, accepted, committed)  # noqa: E731
    first = engine.now
    assert await engine.deliver(WRITE, write(1, 1, 0, next(theirs), b"one" * 100)) == [ack(0, 1, 0)]
    assert engine.now - first > 100
    for number in range(2, 12):
        data = write(1, number, 0, next(theirs), bytes([number]) * 90 * number)
        await engine.deliver(WRITE, data, last=number % 3 == 0, settle=False)
    out = await engine.settled()
    assert out[-1] == ack(0, 11, 0), out
    accepted = [x[5] for x in out]
    assert accepted == sorted(accepted) and accepted[0] < 11, accepted
    assert await engine.deliver(WRITE, write(1, 3, 1, next(theirs), b"x")) == [ack(0, 11, 1)], "a repeated one at once"


@cocotb.test()
async def test_latency(dut):
    """Cycles from an event to its effect in an idle engine, and between accepted gets and puts."""
    engine = Engine(dut, 9, latency=(30, 30), ready=1)
    await engine.begin()
    assert await engine.configure(0, 1, 3) == []
    mine = list(keys(lambda partition: partition % 2 == 0))[:200]
    theirs = next(keys(lambda partition: partition % 2 == 1))

    async def cycles(signal, event):
        handle = getattr(dut, signal)
        task = cocotb.start_soon(event)
        start = None
        for _ in range(400):
            await ReadOnly()
            if start is None and int(dut.event_valid_i.value):
                start = engine.now
            if start is not None and int(handle.value):
                break
            await FallingEdge(dut.clk_i)
        found = engine.now - start
        await task
        await engine.settled()
        return found

    measured = {
        "put to Write": await cycles("message_valid_o", engine.call(request(PUT, mine[0], value=b"v" * 64), settle=False)),
        "Write to Acknowledge": await cycles(
            "message_valid_o", engine.deliver(WRITE, write(1, 1, 0, theirs, b"v" * 64), settle=False)),
        "Acknowledge to reply": await cycles("message_valid_o", engine.deliver(ACKNOWLEDGE, acknowledge(1, 1), settle=False)),
        "get to reply, memory 30": await cycles("message_valid_o", engine.call(request(GET, mine[0]), settle=False)),
        "get to NotFound": await cycles("message_valid_o", engine.call(request(GET, mine[1]), settle=False)),
    }
    begin = engine.now
    for index in range(100):
        await engine.call(request(GET, mine[0], number=index + 5), settle=False)
    measured["a get"] = (engine.now - begin) / 100
    assert len(await engine.settled()) == 100
    begin = engine.now
    for index in range(50):
        await engine.call(request(PUT, mine[index], client=100 + index, value=b"w" * 1024), settle=False)
    measured["a put of 1 KiB"] = (engine.now - begin) / 50
    assert len(await engine.settled()) == 50
    dut._log.info("%s", measured)
    assert measured["put to Write"] <= 30 and measured["Write to Acknowledge"] <= 12, measured


def test_kv():
    sources = ["weft_pkg.sv", "engines/engines_pkg.sv", "engines/kv/kv_pkg.sv", "engines/kv/kv_messages_pkg.sv",
               "engines/kv/kv_streams_pkg.sv", "engines/kv/kv_table_pkg.sv"]
    sources += sorted(str(path.relative_to(bench.RTL)) for folder in ("stream",) for path in (bench.RTL / folder).glob("*.sv"))
    sources += [f"memory/{name}.sv" for name in ("axi_bursts", "axi_reader", "axi_writer")]
    sources += sorted(
        str(path.relative_to(bench.RTL)) for path in (bench.RTL / "engines/kv").glob("kv*.sv") if "_pkg" not in path.name)
    bench.run("kv", sources, __file__, parameters={"PlantedBugs": 1})
