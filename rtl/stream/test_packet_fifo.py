"""packet_fifo: good packets leave whole and in order; no element of a bad or lost packet does."""

import random
from collections import deque

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly, RisingEdge

import bench

DEPTH = 32


async def reset(dut):
    cocotb.start_soon(Clock(dut.clk_i, 4, unit="ns").start())
    dut.rst_ni.value = 0
    for name in ("in_valid_i", "in_last_i", "in_abort_i", "in_i", "verdict_valid_i", "verdict_good_i", "out_ready_i"):
        getattr(dut, name).value = 0
    for _ in range(2):
        await FallingEdge(dut.clk_i)
    dut.rst_ni.value = 1


@cocotb.test()
async def random_packets(dut):
    chance = random.Random(1)
    await reset(dut)
    sent = 0
    packet = deque()  # elements of the current packet that are still to be written
    given_up = False
    written = []
    waiting = deque()  # (element values, first cycle in which a verdict may come)
    expected = deque()  # (value, last) of the elements that must come out
    losses = taken = bad = 0
    cycle = 0
    while taken < 6_000:
        cycle += 1
        assert cycle < 60_000, "nothing comes out"
        await FallingEdge(dut.clk_i)
        phase = cycle // 1_500 % 3
        put = chance.random() < (1.0, 0.5, 0.8)[phase]
        abort = False
        if put and not packet:
            packet.extend(range(sent, sent + chance.choice((1, 1, 2, 3, 8, DEPTH, DEPTH + 1))))
            sent += len(packet)
        if put:
            abort = chance.random() < 0.02
            dut.in_i.value = packet[0] % 256
            dut.in_last_i.value = int(len(packet) == 1)
        dut.in_valid_i.value = int(put)
        dut.in_abort_i.value = int(abort)
        judge = bool(waiting) and waiting[0][1] <= cycle and chance.random() < (1.0, 0.9, 0.2)[phase]
        good = chance.random() < (1.0, 0.5, 0.8)[phase]
        dut.verdict_valid_i.value = int(judge)
        dut.verdict_good_i.value = int(good)
        ready = chance.random() < (1.0, 0.9, 0.3)[phase]
        dut.out_ready_i.value = int(ready)
        await ReadOnly()
        if int(dut.out_valid_o.value) and ready:
            value, last = expected.popleft()
            assert (int(dut.out_o.value), int(dut.out_last_o.value)) == (value % 256, last)
            taken += 1
        lost = bool(int(dut.in_lost_o.value))
        level = int(dut.level_o.value)
        assert level <= DEPTH
        await RisingEdge(dut.clk_i)
        if judge:
            values, _ = waiting.popleft()
            if good:
                expected.extend((value, int(value == values[-1])) for value in values)
            else:
                bad += 1
        if put:
            value = packet.popleft()
            written.append(value)
            given_up |= abort or level == DEPTH
            if not packet:
                assert lost == given_up
                if lost:
                    losses += 1
                else:
                    waiting.append((written, cycle + 1))
                written, given_up = [], False
    assert losses > 100 and bad > 100


@cocotb.test()
async def no_gap_between_packets_and_one_cycle_from_the_verdict(dut):
    await reset(dut)
    lengths = [3] * 40 + [1] * 40
    ends = []
    for length in lengths:
        ends += [0] * (length - 1) + [1]
    outs = []
    for cycle in range(len(ends) + 20):
        await FallingEdge(dut.clk_i)
        inside = cycle < len(ends)
        dut.in_valid_i.value = int(inside)
        dut.in_last_i.value = ends[cycle] if inside else 0
        # The verdict is given three cycles after the last element.
        dut.verdict_valid_i.value = ends[cycle - 3] if 0 <= cycle - 3 < len(ends) else 0
        dut.verdict_good_i.value = 1
        dut.out_ready_i.value = 1
        await ReadOnly()
        if int(dut.out_valid_o.value):
            outs.append(cycle)
    assert outs[0] == 2 + 3 + 1
    assert outs == list(range(outs[0], outs[0] + len(ends)))
    assert int(dut.empty_o.value) == 1


@cocotb.test()
async def a_full_fifo_loses_only_what_does_not_fit(dut):
    await reset(dut)
    lost = []
    for cycle in range(DEPTH + 4):
        await FallingEdge(dut.clk_i)
        dut.in_valid_i.value = 1
        dut.in_last_i.value = 1
        dut.in_i.value = cycle
        await ReadOnly()
        lost.append(int(dut.in_lost_o.value))
    assert lost == [0] * DEPTH + [1] * 4
    # All packets get their verdicts before the first one leaves.
    for cycle in range(DEPTH):
        await FallingEdge(dut.clk_i)
        dut.in_valid_i.value = 0
        dut.verdict_valid_i.value = 1
        dut.verdict_good_i.value = int(cycle % 3 != 0)
    await FallingEdge(dut.clk_i)
    dut.verdict_valid_i.value = 0
    dut.out_ready_i.value = 1
    out = []
    for _ in range(DEPTH + 2):
        await ReadOnly()
        if int(dut.out_valid_o.value):
            out.append(int(dut.out_o.value))
        await FallingEdge(dut.clk_i)
    assert out == [cycle for cycle in range(DEPTH) if cycle % 3 != 0]
    assert int(dut.empty_o.value) == 1


def test_packet_fifo():
    sources = ["stream/ram.sv", "stream/ram_fifo.sv", "stream/packet_fifo.sv"]
    bench.run("packet_fifo", sources, __file__, parameters={"Depth": DEPTH})
