"""arbiter: whole packets, in order, round-robin."""

import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly

import bench

INPUTS = 3


async def start(dut):
    cocotb.start_soon(Clock(dut.clk_i, 4, unit="ns").start())
    dut.rst_ni.value = 0
    dut.in_valid_i.value = 0
    dut.out_ready_i.value = 0
    for _ in range(2):
        await FallingEdge(dut.clk_i)
    dut.rst_ni.value = 1


async def drive(dut, chance, packets, offer_rate, ready_rate):
    """Offers packets, given as a list of lengths for each input. Returns the inputs in the order in which their
    packets ended."""
    elements = []
    for lengths in packets:
        flat = []
        for number, length in enumerate(lengths):
            flat += [(number * 16 + place & 0xFF, place == length - 1) for place in range(length)]
        elements.append(flat)
    taken = [0] * INPUTS
    offered = [False] * INPUTS
    turns, holder, waiting, cycle = [], None, None, 0
    while any(taken[i] < len(elements[i]) for i in range(INPUTS)):
        await FallingEdge(dut.clk_i)
        valid = last = data = 0
        for i in range(INPUTS):
            offered[i] = taken[i] < len(elements[i]) and (offered[i] or chance.random() < offer_rate)
            if offered[i]:
                value, is_last = elements[i][taken[i]]
                valid, last, data = valid | 1 << i, last | is_last << i, data | value << 8 * i
        dut.in_valid_i.value, dut.in_last_i.value, dut.in_i.value = valid, last, data
        dut.out_ready_i.value = int(chance.random() < ready_rate)
        await ReadOnly()
        ready = int(dut.in_ready_o.value)
        if int(dut.out_valid_o.value):
            who = int(dut.grant_o.value)
            value, is_last = elements[who][taken[who]]
            assert offered[who]
            assert (int(dut.out_o.value), int(dut.out_last_o.value)) == (value, is_last)
            assert holder in (None, who), "a packet was cut"
            assert waiting in (None, who), "an offer was withdrawn"
            if int(dut.out_ready_i.value):
                assert ready == 1 << who
                taken[who] += 1
                offered[who] = False
                holder, waiting = None if is_last else who, None
                if is_last:
                    turns.append(who)
            else:
                waiting = who
                assert ready & valid == 0
        else:
            assert holder is not None or not valid, "nobody was granted"
            assert ready & valid == 0
        cycle += 1
    return turns, cycle


@cocotb.test()
async def takes_turns_without_a_gap(dut):
    await start(dut)
    chance = random.Random(1)
    packets = [[chance.randint(1, 4) for _ in range(100)] for _ in range(INPUTS)]
    turns, cycles = await drive(dut, chance, packets, 1, 1)
    assert cycles == sum(map(sum, packets))
    for turn in range(0, len(turns), INPUTS):
        assert sorted(turns[turn : turn + INPUTS]) == list(range(INPUTS))


@cocotb.test()
async def random_waits(dut):
    await start(dut)
    chance = random.Random(2)
    for rates in ((0.3, 1), (1, 0.3), (0.6, 0.6)):
        await drive(dut, chance, [[chance.randint(1, 4) for _ in range(200)] for _ in range(INPUTS)], *rates)


def test_arbiter():
    bench.run("arbiter", ["stream/arbiter.sv"], __file__, parameters={"N": INPUTS})
