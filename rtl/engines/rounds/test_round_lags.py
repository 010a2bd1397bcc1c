"""round_lags: the lag of each node's last message, and the largest lag, against a model."""

import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly

import bench
from structs import constant

NODES = constant("RoundsNodes")


@cocotb.test()
async def follows_the_model(dut):
    chance = random.Random(1)
    cocotb.start_soon(Clock(dut.clk_i, 4, unit="ns").start())
    dut.rst_ni.value = 0
    for name in ("clear_i", "measure_i", "from_i", "lag_i"):
        getattr(dut, name).value = 0
    await FallingEdge(dut.clk_i)
    dut.rst_ni.value = 1
    lags, known, largest, coming = [0] * NODES, 0, 0, None
    negative = cleared = 0
    for _ in range(5_000):
        await FallingEdge(dut.clk_i)
        clear = chance.random() < 0.02
        measured = (chance.randrange(NODES), chance.randrange(-1 << 31, 1 << 31)) if chance.random() < 0.5 else None
        dut.clear_i.value, dut.measure_i.value = int(clear), int(measured is not None)
        dut.from_i.value, lag = measured or (0, 0)
        dut.lag_i.value = lag & 0xFFFF_FFFF
        await ReadOnly()
        shown = int(dut.lags_o.value)
        assert [shown >> 32 * node & 0xFFFF_FFFF for node in range(NODES)] == [lag & 0xFFFF_FFFF for lag in lags]
        assert int(dut.known_o.value) == known
        assert int(dut.largest_o.value) == largest
        if clear:
            cleared += known != 0
            lags, known, largest, coming = [0] * NODES, 0, 0, None
            continue
        if coming:
            sender, lag = coming
            lags[sender], known, largest = lag, known | 1 << sender, max(largest, lag)
            negative += lag < 0
        coming = measured
    assert negative > 100 and cleared > 20


def test_round_lags():
    sources = ["weft_pkg.sv", "engines/engines_pkg.sv", "engines/rounds/rounds_pkg.sv", "engines/rounds/round_lags.sv"]
    bench.run("round_lags", sources, __file__)
