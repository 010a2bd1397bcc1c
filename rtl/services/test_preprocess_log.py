"""preprocess_log: against the logarithm of the C library, within 1 ulp; and nearly always what rounding it gives."""

import math
import random

import cocotb
import numpy

import bench
from pipelines import EDGES, LARGEST, SOURCES, constant, run, start, unsigned, values


async def check(dut, cases):
    """Returns for how many cases the result is not the double precision logarithm, rounded."""
    inputs = [{"value_i": unsigned(value), "constant_i": number} for value, number in cases]
    found = await run(dut, inputs, ["float_o"], constant("PreprocessLogLatency"))
    others = 0
    for (value, number), (bits,) in zip(cases, found, strict=True):
        exact = math.log(max(value + number, 1))
        result = numpy.array(bits, dtype=numpy.uint32).view(numpy.float32)
        assert abs(float(result) - exact) < 0.500_001 * float(numpy.spacing(result)), (value, number)
        others += result != numpy.float32(exact)
    return others


@cocotb.test()
async def small_numbers_and_powers_of_two(dut):
    await start(dut)
    cases = [(value, 1) for value in range(-20, 20_000)]
    near = [(1 << bit) + off for bit in range(33) for off in (-2, -1, 0, 1, 2)]
    cases += [(number - LARGEST, LARGEST) for number in near if number - LARGEST <= LARGEST]
    cases += [(value, number) for value in EDGES for number in (0, 1, 2, LARGEST - 1, LARGEST)]
    assert await check(dut, cases) == 0


@cocotb.test()
async def any_number_and_constant(dut):
    await start(dut)
    chance = random.Random(1)
    cases = [(value, chance.getrandbits(chance.randrange(32))) for value in values(chance, 20_000)]
    assert await check(dut, cases) == 0


# Logarithms so near to the middle of two floats that an error of 2^-46 in the sum changes them: all from 2^23 to 2^32
# whose distance to the middle is 2^-29 to 2^-24 of a unit.
HARD = [
    101320060, 313124632, 819154840, 1123682560, 1444814252, 1448401191, 1513716308, 1639298208, 1803159299, 1826015778,
    1926700999, 2036337480, 2224096019, 2258719740, 2289852047, 2395514211, 2534533643, 2583591316, 2592234335, 2828987038,
    2846762670, 3019642931, 3070971096, 3185141349, 3226752376, 3531438198,
]


@cocotb.test()
async def small_errors_are_seen(dut):
    await start(dut)
    assert await check(dut, [(number - LARGEST, LARGEST) for number in HARD]) == 0


def test_preprocess_log():
    bench.run("preprocess_log", [*SOURCES, "services/preprocess_log.sv"], __file__)
