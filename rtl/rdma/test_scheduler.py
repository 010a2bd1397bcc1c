"""scheduler: round-robin, no queue pair twice in line, no lost wake-up, one turn a cycle."""

import collections
import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly

import bench
from structs import constant

QUEUE_PAIRS = constant("QueuePairs")


async def start(dut):
    cocotb.start_soon(Clock(dut.clk_i, 4, unit="ns").start())
    dut.rst_ni.value = 0
    dut.activate_a_valid_i.value = 0
    dut.activate_b_valid_i.value = 0
    dut.turn_ready_i.value = 0
    for _ in range(3):
        await FallingEdge(dut.clk_i)
    dut.rst_ni.value = 1
    cycles = 0
    while not int(dut.ready_o.value):
        assert not int(dut.activate_b_ready_o.value)
        assert not int(dut.idle_o.value)
        await FallingEdge(dut.clk_i)
        cycles += 1
    assert cycles <= QUEUE_PAIRS + 1
    assert int(dut.idle_o.value)


async def cycle(dut, a=None, b=None, ready=False):
    """Runs one cycle. Returns whether b was accepted, and the turn that was taken."""
    dut.activate_a_valid_i.value = int(a is not None)
    dut.activate_a_i.value = a or 0
    dut.activate_b_valid_i.value = int(b is not None)
    dut.activate_b_i.value = b or 0
    dut.turn_ready_i.value = int(ready)
    await ReadOnly()
    accepted = b is not None and bool(int(dut.activate_b_ready_o.value))
    turn = int(dut.turn_o.value) if ready and int(dut.turn_valid_o.value) else None
    assert int(dut.idle_o.value) == (not int(dut.turn_valid_o.value))
    await FallingEdge(dut.clk_i)
    return accepted, turn


class Arbiter:
    """The soft transport's arbiter."""

    def __init__(self):
        self.line = collections.deque()

    def activate(self, index):
        if index not in self.line:
            self.line.append(index)


@cocotb.test()
async def turns_go_round_and_nobody_stands_twice_in_line(dut):
    await start(dut)
    for index in (2, 0, 2, 0):
        await cycle(dut, a=index)
    assert (await cycle(dut, a=2, ready=True))[1] == 2
    assert (await cycle(dut, ready=True))[1] == 0
    assert (await cycle(dut, ready=True))[1] == 2
    assert (await cycle(dut, ready=True))[1] is None


@cocotb.test()
async def all_queue_pairs_fit_in_line_and_one_has_its_turn_every_cycle(dut):
    await start(dut)
    order = random.Random(1).sample(range(QUEUE_PAIRS), QUEUE_PAIRS)
    for index in order + order[:100]:
        await cycle(dut, a=index)
    for index in order:
        assert (await cycle(dut, a=index, ready=True))[1] == index
    for index in order:
        assert (await cycle(dut, ready=True))[1] == index
    assert (await cycle(dut, ready=True))[1] is None


@cocotb.test()
async def a_reset_empties_the_line(dut):
    await start(dut)
    for index in range(10):
        await cycle(dut, a=index)
    await cycle(dut, ready=True)
    await start(dut)
    for index in (9, 0):
        await cycle(dut, a=index)
    assert (await cycle(dut, ready=True))[1] == 9
    assert (await cycle(dut, ready=True))[1] == 0


@cocotb.test()
async def any_sequence_gives_the_turns_of_the_soft_arbiter(dut):
    await start(dut)
    chance = random.Random(2)
    model = Arbiter()
    for step in range(8_000):
        few = 6 if step < 5_000 else QUEUE_PAIRS
        busy = (0.9, 0.3, 0.05)[step // 500 % 3]
        a = chance.randrange(few) if chance.random() < busy else None
        b = chance.randrange(few) if chance.random() < busy else None
        accepted, turn = await cycle(dut, a, b, chance.random() < (0.3, 0.9)[step // 700 % 2])
        assert accepted == (b is not None and a is None)
        if turn is not None:
            assert turn == model.line.popleft()
        if a is not None:
            model.activate(a)
        elif b is not None:
            model.activate(b)
    while model.line:
        assert (await cycle(dut, ready=True))[1] == model.line.popleft()
    assert (await cycle(dut, ready=True))[1] is None


def test_scheduler():
    bench.run("scheduler", ["weft_pkg.sv", "rdma/scheduler.sv"], __file__)
