"""kv: the whole engine, event by event: what it answers, whom it tells, and when."""

import pathlib
import sys

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "memory"))

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
    """Keys whose partition obeys the rule."""
    return (key for key in range(1, 1 << 20) if partition_rule(mix(key) & 0xFF))


def big(value, length):
    return value.to_bytes(length, "big")


def at(data, offset, length):
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
    """A message as a tuple that reads well."""
    kind = message["message"]
    whom = ("reply", message["caller"]["port"]) if message["reply"] else ("to", message["to"])
    if kind == REPLY:
        return (*whom, "Reply", data[0], at(data, 8, 8), at(data, 16, 8), at(data, 24, 8), data[40:])
    if kind == WRITE:
        return (*whom, "Write", at(data, 0, 4), data[4], data[5], at(data, 8, 8), at(data, 16, 8), at(data, 40, 8), at(data, 48, 8),
                data[56:])
    if kind == ACKNOWLEDGE:
        return (*whom, "Acknowledge", at(data, 0, 4), data[4], at(data, 8, 8), at(data, 16, 8))
    if kind == COMMIT:
        return (*whom, "Commit", at(data, 0, 4), at(data, 8, 8))
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
    """A cluster of one: all operations, every kind of end, exactly once."""
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


def test_kv():
    sources = ["weft_pkg.sv", "engines/engines_pkg.sv", "engines/kv/kv_pkg.sv", "engines/kv/kv_messages_pkg.sv",
               "engines/kv/kv_table_pkg.sv"]
    sources += sorted(str(path.relative_to(bench.RTL)) for folder in ("stream",) for path in (bench.RTL / folder).glob("*.sv"))
    sources += [f"memory/{name}.sv" for name in ("axi_bursts", "axi_reader", "axi_writer", "block_ram_fifo")]
    sources += sorted(
        str(path.relative_to(bench.RTL)) for path in (bench.RTL / "engines/kv").glob("kv*.sv") if "_pkg" not in path.name)
    bench.run("kv", sources, __file__, parameters={"PlantedBugs": 1})
