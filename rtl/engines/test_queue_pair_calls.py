"""queue_pair_calls: WRITEs, packet by packet and interleaved, reach the engine as calls, or are counted."""

from collections import deque

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly

import bench
from streams import Bench, packets
from structs import constant, pack, unpack

QUEUE_PAIRS = constant("QueuePairs")
CALLS = 16
BUFFERS = 32
MTU = 256


class Message:
    def __init__(self, address, data, immediate=None, slot=0):
        self.address, self.data, self.immediate, self.slot = address, data, immediate, slot

    def beats(self, qp, at):
        """The rpc_beat_t of the packet that begins at byte `at` of the message."""
        part = self.data[at : at + MTU]
        address = self.address + at
        lead = address % 64
        strobe = (1 << len(part)) - 1 << lead
        image = (bytes(lead) + part).ljust((lead + len(part) + 63) // 64 * 64, b"\xee")
        return [
            pack(
                "rpc_beat_t",
                qp=qp,
                begins=at == 0,
                ends=at + MTU >= len(self.data),
                address=(address & ~63) + offset,
                beat={
                    "last": offset + 64 == len(image),
                    "strobe": strobe >> offset & (1 << 64) - 1,
                    "data": int.from_bytes(image[offset : offset + 64], "little"),
                },
            )
            for offset in range(0, len(image), 64)
        ]

    def call(self, qp):
        return pack(
            "rpc_call_t",
            slot=self.slot,
            qp=qp,
            address=self.address,
            length=len(self.data),
            has_immediate=self.immediate is not None,
            immediate=self.immediate or 0,
        )

    def meaning(self, enabled=True):
        """The expected kind and payload, or the counter."""
        kind, payload = self.immediate, self.data
        if kind is None and len(payload) >= 8:
            kind, payload = int.from_bytes(payload[:8], "big"), payload[8:]
        if kind is None or kind > 255:
            return "rpc_malformed"
        return "messages_without_engine" if self.slot or not enabled else (kind, payload)


def incarnation(qp):
    return qp * 7 & 255


class Calls(Bench):
    async def ready(self, rate=0.7, enable=1):
        dut = self.dut
        await self.start(clear=QUEUE_PAIRS + 2, enable_i=enable, forget_valid_i=0)
        self.outstanding = 0
        self.due = deque()
        self.events_taken = self.take("event", ["_o"], rate)
        self.payload_taken = self.take("payload", ["_o"], rate)
        cocotb.start_soon(self._answer())
        cocotb.start_soon(self._call())
        dut.forget_valid_i.value = 0

    async def _answer(self):
        dut = self.dut
        while True:
            dut.lookup_ready_i.value = self.chance.random() < 0.7
            dut.lookup_incarnation_i.value = incarnation(int(dut.lookup_qp_o.value)) if dut.lookup_qp_o.value.is_resolvable else 0
            await ReadOnly()
            self.outstanding -= int(dut.call_done_o.value)
            await FallingEdge(dut.clk_i)

    async def _call(self):
        while True:
            if self.due and self.chance.random() < 0.5:
                await self.send("call", [{"_i": self.due.popleft()}])
            else:
                await FallingEdge(self.dut.clk_i)

    async def packet(self, qp, message, at):
        """Sends one packet, and the call behind it if it is the last of the message."""
        ends = at + MTU >= len(message.data)
        while ends and self.outstanding == CALLS:
            await FallingEdge(self.dut.clk_i)
        self.outstanding += ends
        await self.send("snoop", [{"_i": beat} for beat in (message.beats(qp, at) if message.data else [])], 0.8)
        if ends:
            self.due.append(message.call(qp))

    async def forget(self, qp):
        self.dut.forget_valid_i.value = 1
        self.dut.forget_qp_i.value = qp
        await self.cycles(1)
        self.dut.forget_valid_i.value = 0

    async def settle(self):
        while self.due or self.outstanding:
            await FallingEdge(self.dut.clk_i)
        await self.idle()

    def told(self):
        """Queue pair, kind and payload of each event received."""
        events = [unpack("engine_event_t", event) for (event,) in self.events_taken]
        payloads = iter(packets(beat for (beat,) in self.payload_taken))
        out = []
        for event in events:
            assert event["kind"] == constant("EventCall") and event["last"]
            assert event["caller"]["kind"] == constant("CallerQueuePair")
            address = event["caller"]["address"]
            qp = address % QUEUE_PAIRS
            assert address // QUEUE_PAIRS == incarnation(qp)
            payload = next(payloads) if event["bytes"] else b""
            assert len(payload) == event["bytes"]
            out.append((qp, event["message"], payload))
        assert not list(payloads)
        return out


def random_message(chance):
    length = chance.choice([0, 1, 7, 8, 9, 40, 56, 63, 64, 65, 71, 72, 73, 128, 300, 1064, chance.randrange(1900)])
    address = 0x1000 + chance.randrange(64)
    data = chance.randbytes(length)
    immediate = chance.choice([None, chance.randrange(256), chance.randrange(1 << 32)])
    if immediate is None and chance.random() < 0.8:
        data = (bytes(7) + data)[:length]
    return Message(address, data, immediate, chance.choice([0, 0, 0, 0, 9]))


@cocotb.test()
async def messages_of_many_queue_pairs(dut):
    """Interleaved packets of several queue pairs; each message is delivered once and whole, or counted."""
    calls = Calls(dut, 1)
    await calls.ready()
    chance = calls.chance
    at, wanted, counted = {}, [], {}
    for _ in range(1_500):
        qp = chance.choice([0, 1, 5, 77, 300, 511])
        message, offset = at.get(qp) or (random_message(chance), 0)
        await calls.packet(qp, message, offset)
        if offset + MTU >= len(message.data):
            at.pop(qp, None)
            meaning = message.meaning()
            if isinstance(meaning, str):
                counted[meaning] = counted.get(meaning, 0) + 1
            else:
                wanted.append((qp, *meaning))
        else:
            at[qp] = message, offset + MTU
    await calls.settle()
    assert calls.told() == wanted and len(wanted) > 100
    assert +calls.events == counted and len(counted) == 2


@cocotb.test()
async def what_finds_no_buffer_is_counted(dut):
    """More messages in progress than buffers, abandoned messages, and resets of queue pairs; all buffers are
    released in the end."""
    calls = Calls(dut, 2)
    await calls.ready(rate=1.0)
    wanted = []
    for round_ in range(4):
        lost = calls.events["calls_without_buffer"]
        text = [Message(0x40, calls.chance.randbytes(300), round_) for _ in range(BUFFERS + 8)]
        for qp, message in enumerate(text):
            await calls.packet(qp, message, 0)
        for qp, message in enumerate(text):
            if qp % 4 == 1:
                # The queue pair starts a new message, and keeps its buffer.
                message.data = calls.chance.randbytes(280)
                if qp < BUFFERS:
                    await calls.packet(qp, message, 0)
            if qp % 4 == 2:
                await calls.forget(qp)
                await calls.cycles(80)
            else:
                await calls.packet(qp, message, MTU)
                if qp < BUFFERS:
                    wanted.append((qp, round_, message.data))
        await calls.settle()
        # These messages found no buffer when they began. The later packets of a message that was dropped by a reset
        # have no effect.
        assert calls.events["calls_without_buffer"] - lost == 6
    assert calls.told() == wanted


@cocotb.test()
async def what_was_forgotten_is_not_told(dut):
    """The last packets of a message arrive after a reset of its queue pair: its call is counted and not delivered."""
    calls = Calls(dut, 3)
    await calls.ready()
    message = Message(0x10, calls.chance.randbytes(400), 3)
    await calls.packet(4, message, 0)
    await calls.forget(4)
    await calls.cycles(80)
    await calls.packet(4, message, MTU)
    await calls.settle()
    assert calls.events["calls_without_buffer"] == 1 and not calls.told()


@cocotb.test()
async def long_messages(dut):
    """A message that touches 32 beats is delivered; one that is a byte longer is not."""
    calls = Calls(dut, 4)
    await calls.ready()
    wanted = []
    for lead in (0, 1, 63):
        for length in (2048 - lead, 2049 - lead, 6_000):
            message = Message(0x4000 + lead, calls.chance.randbytes(length), 200)
            for at in range(0, length, MTU):
                await calls.packet(9, message, at)
            if length <= 2048 - lead:
                wanted.append((9, 200, message.data))
            await calls.settle()
    assert calls.told() == wanted
    assert calls.events["calls_without_buffer"] == 6


@cocotb.test()
async def nobody_is_there(dut):
    calls = Calls(dut, 5)
    await calls.ready(enable=0)
    for immediate in (7, None, 256):
        await calls.packet(1, Message(0, bytes(20), immediate), 0)
    await calls.settle()
    assert calls.events["messages_without_engine"] == 2 and calls.events["rpc_malformed"] == 1 and not calls.told()


@cocotb.test()
async def latency_and_throughput(dut):
    """13 cycles from a call to its event if a word of the message names the operation, as the block's header says."""
    calls = Calls(dut, 6)
    await calls.start(clear=QUEUE_PAIRS + 2, enable_i=1, forget_valid_i=0, lookup_ready_i=1, lookup_incarnation_i=0)
    dut.event_ready_i.value = dut.payload_ready_i.value = 1
    message = Message(0x100, (1).to_bytes(8, "big") + bytes(56))
    await calls.send("snoop", [{"_i": beat} for beat in message.beats(3, 0)])
    cycles = []
    await calls.send("call", [{"_i": message.call(3)}])
    for cycle in range(1, 40):
        await ReadOnly()
        if int(dut.event_valid_o.value):
            cycles.append(cycle)
        await FallingEdge(dut.clk_i)
    dut._log.info("event after %s cycles", cycles)
    assert cycles[0] <= 13


def test_queue_pair_calls():
    sources = ["stream/fifo.sv", "stream/ram.sv", "stream/realign.sv", "memory/on_chip_memory.sv"]
    sources = ["weft_pkg.sv", "engines/engines_pkg.sv", *sources, "engines/queue_pair_calls.sv"]
    bench.run("queue_pair_calls", sources, __file__, {"Buffers": BUFFERS})
