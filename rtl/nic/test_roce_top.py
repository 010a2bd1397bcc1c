"""roce_top: one queue pair of the card sends to another through the MAC, driven as a host would.

Host, memories and MAC are models of cocotbext-axi, so independent code checks that the signals conform to AXI.
"""

import pathlib
import random
import struct
from collections import namedtuple

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge
from cocotbext.axi import (
    AxiBus,
    AxiLiteBus,
    AxiLiteMaster,
    AxiRam,
    AxiStreamBus,
    AxiStreamSink,
    AxiStreamSource,
)

import bench
from registers import ADDRESSES
from structs import constant

RTL = pathlib.Path(__file__).parents[1]
SIZES = {"WEFT_QUEUE_PAIRS": 16, "WEFT_REGIONS": 16}
HARDWARE = 0x0200_0000_0001
ADDRESS = 0x0A00_0001
KEY = 0x0C00_0003  # of the region with index 3, which is in the key's low bits
DOMAIN = 7
# A queue pair's number has the index in its low bits. The specification reserves the lowest numbers.
NUMBERS = 0x100
GO = 1 << 31
ALL_ACCESS = 15
HOST = 3
# Addresses in the host's memory.
POSTS, COMPLETIONS, DATA = 0x0_1000, 0x0_2000, 0x1_0000
POST_SIZE, COMPLETION_SIZE = 3, 2
BUSY = {"queue_pair": 1, "region": 2, "control": 3}

Completion = namedtuple("Completion", "id bytes immediate qp status opcode has_immediate")


class Host:
    """A host with the card on its bus. The card's MAC is looped back."""

    def __init__(self, dut):
        self.dut = dut
        cocotb.start_soon(Clock(dut.clk, 4, unit="ns").start())
        reset = dict(reset=dut.rst_n, reset_active_level=False)
        self.registers = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), dut.clk, **reset)
        ram = lambda name, **kwargs: AxiRam(AxiBus.from_prefix(dut, f"m_axi_{name}"), dut.clk, **reset, **kwargs)  # noqa: E731
        self.memory = ram("host", size=1 << 20)
        # Both masters reach the same memory.
        self.queues = ram("queues", mem=self.memory.mem)
        self.others = [ram("hbm", size=1 << 12), ram("retransmission", size=1 << 24)]
        self.sent = AxiStreamSink(AxiStreamBus.from_prefix(dut, "m_axis_tx"), dut.clk, **reset)
        self.received = AxiStreamSource(AxiStreamBus.from_prefix(dut, "s_axis_rx"), dut.clk, **reset)
        self.produced = 0
        self.consumed = 0

    async def start(self):
        self.dut.rst_n.value = 0
        await self.cycles(3)
        self.dut.rst_n.value = 1
        # Meanwhile the tables are cleared, one entry a cycle.
        await self.cycles(100)
        cocotb.start_soon(self._loop())
        await self.write("hardware_low", HARDWARE & 0xFFFF_FFFF)
        await self.write("hardware_high", HARDWARE >> 32)
        await self.write("ipv4", ADDRESS)

    async def _loop(self):
        while True:
            frame = await self.sent.recv()
            await self.received.send(bytes(frame.tdata))

    async def cycles(self, count):
        for _ in range(count):
            await RisingEdge(self.dut.clk)

    async def write(self, register, value):
        await self.registers.write_dword(ADDRESSES[register], value)

    async def read(self, register):
        return await self.registers.read_dword(ADDRESSES[register])

    async def mailbox(self, name, **fields):
        for field, value in fields.items():
            await self.write(f"{name}.{field}", value)
        while await self.read("status") >> BUSY[name] & 1:
            pass

    async def region(self):
        await self.mailbox(
            "region",
            index=KEY & 15,
            lkey=KEY,
            rkey=KEY,
            base_low=DATA,
            base_high=0,
            length_low=0x1_0000,
            length_high=0,
            attributes=DOMAIN | 1 << 16 | ALL_ACCESS << 17 | HOST << 21,
            command=GO,
        )

    async def connect(self, own, peer):
        """Brings queue pair `own` to RTS, connected to queue pair `peer` of the same card."""
        # A path MTU of 1,024 bytes, four READs or atomics at a time, no time-out.
        attributes = 3 | 4 << 3 | 4 << 8 | 7 << 23 | 7 << 26
        await self.mailbox(
            "queue_pair",
            own_qp=NUMBERS | own,
            destination_qp=NUMBERS | peer,
            destination=ADDRESS,
            destination_mac_low=HARDWARE & 0xFFFF_FFFF,
            destination_mac_high=HARDWARE >> 32,
            port=0xC000 + own | DOMAIN << 16,
            attributes=attributes,
            command=GO,
        )
        # Reset, INIT with the peer's access rights, RTR and RTS with the first PSN.
        for operation, argument in ((0, 0), (1, ALL_ACCESS), (2, 100), (3, 100)):
            await self.mailbox("control", argument=argument, command=own | operation << 16 | GO)

    async def enable(self):
        self.produced = self.consumed = 0
        for size, base in ((1 << POST_SIZE, POSTS), (1 << COMPLETION_SIZE, COMPLETIONS)):
            self.memory.write(base, bytes(64 * size))
        await self.write("queues.post_base_low", POSTS)
        await self.write("queues.completion_base_low", COMPLETIONS)
        await self.write("queues.post_produced", 0)
        await self.write("queues.completion_consumed", 0)
        await self.write("queues.control", 1 | 2 | POST_SIZE << 8 | COMPLETION_SIZE << 16)
        while not await self.read("queues.status") & 1:
            pass

    async def disable(self):
        await self.write("queues.control", 0)
        while await self.read("queues.status") & 1:
            pass

    async def post(self, *entries):
        """Writes entries to the queue, then rings the doorbell once."""
        for entry in entries:
            while self.produced - await self.read("queues.post_consumed") & 0xFFFF == 1 << POST_SIZE:
                pass
            self.memory.write(POSTS + 64 * (self.produced % (1 << POST_SIZE)), entry)
            self.produced += 1
        await self.write("queues.post_produced", self.produced & 0xFFFF)

    async def completion(self):
        """The next completion, detected by its phase, as a driver polls it in its cache."""
        at = COMPLETIONS + 64 * (self.consumed % (1 << COMPLETION_SIZE))
        phase = ~(self.consumed >> COMPLETION_SIZE) & 1
        for _ in range(5_000):
            if self.memory.read(at + 63, 1)[0] == phase:
                break
            await self.cycles(1)
        else:
            raise AssertionError("no completion")
        entry = self.memory.read(at, 64)
        self.consumed += 1
        await self.write("queues.completion_consumed", self.consumed & 0xFFFF)
        id, bytes_, immediate, qp, status, opcode, flags = struct.unpack_from("<QIIHBBB", entry)
        return Completion(id, bytes_, immediate, qp, status, opcode, flags)


def entry(qp, id, operation, local=0, length=0, remote=0, immediate=None, add=0, compare=0):
    """A `posted_entry_t`."""
    flags = 1 | (immediate is not None) << 3
    return struct.pack(
        "<BBHIQQIIQIIQQ",
        operation,
        flags,
        qp,
        immediate or 0,
        id,
        DATA + local,
        length,
        KEY,
        DATA + remote,
        KEY,
        0,
        add,
        compare,
    )


SEND, WRITE, READ, SWAP, ADD = (
    constant(f"Operation{name}") for name in ("Send", "Write", "Read", "CompareSwap", "FetchAdd")
)
RECEIVE = constant("PostedReceive")


async def connected(dut):
    host = Host(dut)
    await host.start()
    await host.region()
    await host.connect(1, 2)
    await host.connect(2, 1)
    await host.enable()
    return host


@cocotb.test()
async def every_operation_through_the_queues(dut):
    host = await connected(dut)
    data = random.Random(1).randbytes(5000)
    host.memory.write(DATA, data)
    await host.post(
        entry(2, 100, RECEIVE, local=0x4000, length=256),
        entry(1, 1, WRITE, length=5000, remote=0x2005),
        entry(1, 2, SEND, local=3, length=100, immediate=0xCAFE),
        entry(1, 3, READ, local=0x6001, length=3000, remote=17),
    )
    assert {(await host.completion())[:6:3] for _ in range(4)} == {(1, 1), (2, 1), (3, 1), (100, 2)}
    assert host.memory.read(DATA + 0x2005, 5000) == data
    assert host.memory.read(DATA + 0x4000, 100) == data[3:103]
    assert host.memory.read(DATA + 0x6001, 3000) == data[17:3017]

    host.memory.write(DATA + 0x8000, struct.pack("<Q", 40))
    await host.post(entry(1, 4, ADD, local=0x8100, length=8, remote=0x8000, add=2))
    await host.post(entry(1, 5, SWAP, local=0x8108, length=8, remote=0x8000, add=7, compare=42))
    found = [await host.completion() for _ in range(2)]
    assert [(one.id, one.status, one.bytes) for one in found] == [(4, 0, 8), (5, 0, 8)]
    assert host.memory.read(DATA + 0x8100, 16) == struct.pack("<QQ", 40, 42)
    assert host.memory.read(DATA + 0x8000, 8) == struct.pack("<Q", 7)


@cocotb.test()
async def a_receive_says_what_came(dut):
    host = await connected(dut)
    await host.post(entry(2, 9, RECEIVE, length=64), entry(1, 8, SEND, length=10, immediate=0x1234_5678))
    found = {one.id: one for one in [await host.completion() for _ in range(2)]}
    assert found[9].bytes == 10 and found[9].has_immediate and found[9].immediate == 0x1234_5678
    assert found[9].qp == 2 and found[8].qp == 1 and not found[8].has_immediate


@cocotb.test()
async def queues_wrap_and_wait_for_the_host(dut):
    """Three times as many requests as the post queue has entries, and completions that the host consumes late."""
    host = await connected(dut)
    host.memory.write(DATA, bytes(range(256)))
    poster = cocotb.start_soon(
        host.post(*(entry(1, number, WRITE, local=number, length=32, remote=0x1000 + 64 * number) for number in range(5)))
    )
    await host.cycles(2_000)
    assert int(dut.irq.value) == 1
    assert await host.read("queues.completion_produced") == 1 << COMPLETION_SIZE, "the fifth finds no place"
    await poster
    for number in range(24):
        if number < 19:
            await host.post(
                entry(1, number + 5, WRITE, local=number + 5, length=32, remote=0x1000 + 64 * (number + 5))
            )
        assert (await host.completion())[0] == number
    for number in range(24):
        assert host.memory.read(DATA + 0x1000 + 64 * number, 32) == bytes(range(number, number + 32))
    await host.cycles(10)
    assert int(dut.irq.value) == 0


@cocotb.test()
async def wrong_entries_complete_and_a_wrong_doorbell_stops_the_queue(dut):
    host = await connected(dut)
    await host.post(entry(1, 1, 6), entry(16, 2, WRITE, length=8), entry(1, 3, WRITE, length=8, remote=0x100))
    found = {one.id: one.status for one in [await host.completion() for _ in range(3)]}
    assert found == {1: constant("StatusLocalOperation"), 2: constant("StatusLocalOperation"), 3: 0}

    await host.write("queues.post_produced", 3 + (1 << POST_SIZE) + 1)
    await host.cycles(50)
    assert await host.read("queues.status") == 0b011, "running, overrun"
    assert await host.read("queues.post_consumed") == 3, "nothing of it is fetched"

    # The queues are enabled again.
    await host.disable()
    await host.enable()
    assert await host.read("queues.status") == 0b001
    await host.post(entry(1, 4, WRITE, length=8, remote=0x200))
    assert (await host.completion()).id == 4


def test_roce_top():
    sources = [line for line in (RTL / "weft.f").read_text().splitlines() if line and not line.startswith("//")]
    bench.run("roce_top", sources, __file__, defines=SIZES, arguments=bench.PORTS_ALONE)
