"""carryless_multiplier: against the definition, for sizes from the leaf to several levels above it."""

import random

import cocotb
from cocotb.triggers import Timer

import bench


@cocotb.test()
async def products(dut):
    chance, bits = random.Random(1), int(dut.Bits.value)
    corners = [0, 1, 1 << (bits - 1), (1 << bits) - 1, (1 << bits // 2) - 1, 1 << bits // 2]
    pairs = [(a, b) for a in corners for b in corners]
    pairs += [(chance.getrandbits(bits), chance.getrandbits(bits)) for _ in range(2_000)]
    for a, b in pairs:
        dut.a_i.value, dut.b_i.value = a, b
        await Timer(1, unit="ns")
        expected = 0
        for place in range(bits):
            expected ^= (a << place) * (b >> place & 1)
        assert int(dut.product_o.value) == expected


SOURCES = ["services/carryless_multiplier.sv"]


def test_leaf():
    bench.run("carryless_multiplier", SOURCES, __file__, parameters={"Bits": 8, "Leaf": 8})


def test_halvings():
    bench.run("carryless_multiplier", SOURCES, __file__, parameters={"Bits": 64, "Leaf": 8})
