"""queue_pair_table: every port reads the last write of an earlier cycle, and number 0 after reset."""

import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge

import bench
from structs import constant, pack, unpack, width

QUEUE_PAIRS = constant("QueuePairs")
PORTS = 3
INDEX = width("qp_index_t")
ENTRY = width("queue_pair_t")


async def start(dut):
    cocotb.start_soon(Clock(dut.clk_i, 4, unit="ns").start())
    dut.rst_ni.value = 0
    dut.write_i.value = 0
    dut.read_i.value = 0
    for _ in range(3):
        await FallingEdge(dut.clk_i)
    dut.rst_ni.value = 1
    while not int(dut.ready_o.value):
        await FallingEdge(dut.clk_i)


async def cycle(dut, write=None, reads=(None,) * PORTS):
    """Runs one cycle. Returns the outputs of all ports after it."""
    dut.write_i.value = int(write is not None)
    if write is not None:
        dut.write_index_i.value, dut.write_data_i.value = write
    dut.read_i.value = sum((index is not None) << port for port, index in enumerate(reads))
    dut.read_index_i.value = sum((index or 0) << INDEX * port for port, index in enumerate(reads))
    await FallingEdge(dut.clk_i)
    outputs = int(dut.read_data_o.value)
    return [outputs >> ENTRY * port & (1 << ENTRY) - 1 for port in range(PORTS)]


def attributes(chance, index):
    """Random attributes whose number ends in `index`."""
    number = chance.getrandbits(24) & ~(QUEUE_PAIRS - 1) | index
    fields = unpack("queue_pair_t", chance.getrandbits(ENTRY))
    return pack("queue_pair_t", **{**fields, "number": number})


@cocotb.test()
async def after_reset_there_is_no_queue_pair(dut):
    chance = random.Random(1)
    await start(dut)
    for index in range(QUEUE_PAIRS):
        await cycle(dut, write=(index, attributes(chance, index)))
    await start(dut)
    for index in range(QUEUE_PAIRS):
        others = [(index + 100 * port) % QUEUE_PAIRS for port in range(PORTS)]
        outputs = await cycle(dut, reads=others)
        assert [unpack("queue_pair_t", entry)["number"] for entry in outputs] == [0] * PORTS


@cocotb.test()
async def reads_find_the_last_write_before(dut):
    chance = random.Random(2)
    await start(dut)
    table = [None] * QUEUE_PAIRS
    shown = None
    for step in range(3_000):
        few = 4 if step < 2_000 else QUEUE_PAIRS
        write = None
        if chance.random() < 0.6:
            index = chance.randrange(few)
            write = index, attributes(chance, index)
        reads = [chance.randrange(few) if chance.random() < 0.7 else None for _ in range(PORTS)]
        outputs = await cycle(dut, write, reads)
        for port, index in enumerate(reads):
            if index is not None and table[index] is None:
                assert unpack("queue_pair_t", outputs[port])["number"] == 0
            elif index is not None:
                assert outputs[port] == table[index]
            elif shown:
                assert outputs[port] == shown[port]
        if write:
            table[write[0]] = write[1]
        shown = outputs


def test_queue_pair_table():
    bench.run(
        "queue_pair_table",
        ["weft_pkg.sv", "stream/ram.sv", "rdma/queue_pair_table.sv"],
        __file__,
        parameters={"ReadPorts": PORTS},
    )
