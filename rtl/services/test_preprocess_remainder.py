"""preprocess_remainder: against Python's and numpy's remainder, with the dividends and divisors at which an estimate of a
quotient goes wrong."""

import random

import cocotb
import numpy

import bench
from pipelines import SOURCES, constant, divisor, pack, run, signed, start, unsigned

DIVISORS = [1, 2, 3, 5, 7, 10, 255, 256, 257, 8_192, 1_000_000, 65_535, 65_537, (1 << 31) - 1, 1 << 31, (1 << 30) + 1]


def dividends(chance, number):
    """Multiples of the divisor and their neighbours, at the ends of the range and at random; and any numbers."""
    low, high = -(1 << 63), (1 << 63) - 1
    near = [low, high, 0, chance.randrange(low, high), chance.randrange(-(1 << 31), 1 << 31)]
    for dividend in near:
        for off in (-1, 0, 1):
            yield min(max(dividend // number * number + off, low), high)
            yield min(max(dividend + off, low), high)


async def check(dut, cases):
    inputs = [{"dividend_i": unsigned(a, 64), "divisor_i": pack("preprocess_divisor_t", **divisor(n))} for a, n in cases]
    found = await run(dut, inputs, ["remainder_o"], constant("PreprocessRemainderLatency"))
    for (dividend, number), (result,) in zip(cases, found, strict=True):
        assert result == dividend % number == numpy.remainder(numpy.int64(dividend), numpy.int64(number)), (dividend, number)


@cocotb.test()
async def remainders_are_pythons(dut):
    await start(dut)
    chance = random.Random(1)
    numbers = DIVISORS + [chance.randrange(1, 1 + (1 << chance.randrange(1, 32))) for _ in range(500)]
    await check(dut, [(dividend, number) for number in numbers for dividend in dividends(chance, number)])


@cocotb.test()
async def all_small_divisors(dut):
    await start(dut)
    chance = random.Random(2)
    await check(dut, [(signed(chance.getrandbits(64), 64), number) for number in range(1, 4_097)])
    # Columns of a row: offsets of 2^62 are the last ones.
    await check(dut, [((1 << 62) - 16 - 16 * row, number) for number in range(1, 257) for row in range(8)])


def test_preprocess_remainder():
    bench.run("preprocess_remainder", [*SOURCES, "services/preprocess_remainder.sv"], __file__)
