"""preprocess_columns: the column of each lane, for rows of every length, at any offset."""

import random

import cocotb

import bench
from pipelines import SOURCES, constant, divisor, pack, run, start, unsigned, write

LANES = 16


async def check(dut, rows, cases):
    """`rows` has the first column and the number of columns of each loaded pipeline."""
    inputs = [{"pipeline_i": unsigned(number, 64), "word_i": word} for number, word in cases]
    found = await run(dut, inputs, ["loaded_o", "columns_o"], constant("PreprocessColumnsLatency"))
    for (number, word), (loaded, columns) in zip(cases, found, strict=True):
        assert loaded == (number in rows), (number, word)
        if loaded:
            first, count = rows[number]
            expected = [first + (16 * word + lane) % count for lane in range(LANES)]
            assert [columns >> (9 * lane) & 511 for lane in range(LANES)] == expected, (number, word)


async def load(dut, number, first, columns):
    data = pack("preprocess_pipeline_t", first=first, columns=divisor(columns))
    await write(dut, "Pipelines", number, data)


@cocotb.test()
async def rows_of_every_length(dut):
    await start(dut)
    chance, pipelines = random.Random(1), constant("PreprocessPipelines")
    numbers = [0, 1, 15, 16, 1 << 32, 1 << 63, -1]
    await check(dut, {}, [(number, chance.getrandbits(58)) for number in numbers])
    lengths = list(range(1, 257))
    chance.shuffle(lengths)
    while lengths:
        rows = {}
        for number in range(pipelines):
            rows[number] = (chance.randrange(257), lengths.pop())
            await load(dut, number, *rows[number])
        words = [0, 1, 2, (1 << 58) - 1]
        cases = [(number, chance.choice([*words, chance.getrandbits(8), chance.getrandbits(58)])) for number in range(16) for _ in range(20)]
        cases += [(number, 5) for number in numbers]
        chance.shuffle(cases)
        await check(dut, rows, cases)


@cocotb.test()
async def what_is_not_loaded_is_not_used(dut):
    await start(dut)
    await load(dut, 3, 100, 40)
    await check(dut, {3: (100, 40)}, [(number, word) for word in range(50) for number in (2, 3, 4, 3 + 16, 3 + (1 << 63))])


def test_preprocess_columns():
    bench.run("preprocess_columns", [*SOURCES, "services/preprocess_remainder.sv", "services/preprocess_columns.sv"], __file__)
