"""multiplier: products of any widths, against Python's integers."""

import random

import cocotb
import pytest

import bench
from pipelines import run, signed, start, unsigned

CASES = {
    "whole": {"ABits": 64, "BBits": 64, "Bits": 128, "Signed": 0},
    "low": {"ABits": 64, "BBits": 64, "Bits": 64, "Signed": 0},
    "short": {"ABits": 11, "BBits": 11, "Bits": 22, "Signed": 0},
    "signed": {"ABits": 27, "BBits": 25, "Bits": 52, "Signed": 1},
    "signed_in_parts": {"ABits": 40, "BBits": 33, "Bits": 73, "Signed": 1},
}


@cocotb.test()
async def products_are_pythons(dut):
    await start(dut)
    chance = random.Random(1)
    a_bits, b_bits, bits, is_signed = (int(getattr(dut, name).value) for name in ("ABits", "BBits", "Bits", "Signed"))

    def operand(width):
        return chance.choice([0, 1, (1 << width) - 1, 1 << (width - 1), chance.getrandbits(width), chance.getrandbits(width)])

    pairs = [(operand(a_bits), operand(b_bits)) for _ in range(3_000)]
    found = await run(dut, [{"a_i": a, "b_i": b} for a, b in pairs], ["product_o"], 3)
    for (a, b), (product,) in zip(pairs, found, strict=True):
        assert product == unsigned((signed(a, a_bits) if is_signed else a) * b, bits), (hex(a), hex(b))


@pytest.mark.parametrize("case", CASES)
def test_multiplier(case):
    bench.run("multiplier", ["services/multiplier.sv"], __file__, parameters=CASES[case])
