"""preprocess_limits: against numpy's `clip`."""

import random

import cocotb
import numpy

import bench
from pipelines import MISSING, SOURCES, run, signed, start, unsigned, values


@cocotb.test()
async def a_missing_value_is_replaced_and_others_are_clipped(dut):
    await start(dut)
    chance = random.Random(1)
    cases = []
    for value, missing, a, b in zip(*(values(chance, 10_000) for _ in range(4)), strict=True):
        low, high = min(a, b), max(a, b)
        cases.append((chance.choice([value, low, high, MISSING]), missing, low, high))
    inputs = [{f"{name}_i": unsigned(number) for name, number in zip(("value", "missing", "low", "high"), case)} for case in cases]
    found = await run(dut, inputs, ["value_o"], 1)
    for (value, missing, low, high), (result,) in zip(cases, found, strict=True):
        expected = missing if value == MISSING else int(numpy.clip(value, low, high))
        assert signed(result) == expected, (value, missing, low, high)


def test_preprocess_limits():
    bench.run("preprocess_limits", [*SOURCES, "services/preprocess_limits.sv"], __file__)
