"""preprocess_bucketize: TorchArrow's published buckets, and numpy's `searchsorted`."""

import random

import cocotb
import numpy

import bench
from pipelines import EDGES, LARGEST, MISSING, SOURCES, constant, run, start, unsigned, values, write_borders


async def counts(dut, cases):
    inputs = [{"value_i": unsigned(value), "set_i": number} for value, number in cases]
    return [count for count, in await run(dut, inputs, ["count_o"], constant("PreprocessBucketizeLatency"))]


@cocotb.test()
async def the_vectors_of_torcharrow(dut):
    await start(dut)
    await write_borders(dut, 3, [2, 5, 10])
    assert await counts(dut, [(value, 3) for value in [1, 2, 3, 5, 8, 10, 11]]) == [0, 0, 1, 1, 2, 2, 3]


@cocotb.test()
async def all_borders_may_be_below(dut):
    await start(dut)
    await write_borders(dut, 0, list(range(64)))
    await write_borders(dut, 15, [MISSING, *range(62), LARGEST])
    assert await counts(dut, [(value, 0) for value in range(-1, 66)]) == [0, *range(65), 64]
    assert await counts(dut, [(MISSING, 15), (MISSING + 1, 15), (LARGEST - 1, 15), (LARGEST, 15)]) == [0, 1, 63, 63]


@cocotb.test()
async def sets_of_all_sizes(dut):
    await start(dut)
    chance = random.Random(1)
    sizes, sets = list(range(1, 65)), constant("PreprocessBorderSets")
    for first in range(0, len(sizes), sets):
        borders = []
        for number, size in enumerate(sizes[first : first + sets]):
            some = set(chance.sample([MISSING, MISSING + 1, -1, 0, 1, LARGEST - 1, LARGEST], min(size, chance.randrange(8))))
            while len(some) < size:
                some.update(values(chance, 1))
            borders.append(sorted(some))
            await write_borders(dut, number, borders[-1])
        # Each border and its neighbours; other values at random. Neighbouring values have other sets.
        cases = [
            (value, number)
            for number, own in enumerate(borders)
            for border in own
            for value in (border - 1, border, border + 1)
            if MISSING <= value <= LARGEST
        ]
        cases += [(value, chance.randrange(sets)) for value in [*EDGES * sets, *values(chance, 2_000)]]
        chance.shuffle(cases)
        for (value, number), count in zip(cases, await counts(dut, cases), strict=True):
            assert count == numpy.searchsorted(borders[number], value, side="left"), (value, borders[number])


def test_preprocess_bucketize():
    bench.run("preprocess_bucketize", [*SOURCES, "services/preprocess_bucketize.sv"], __file__)
