"""preprocess_hash: TorchArrow's published hashes, and the function as its sources describe it."""

import random

import cocotb

import bench
from pipelines import SOURCES, constant, run, signed, start, unsigned, values

FACTOR = 0x9DDFEA08EB382D69


def mixed(key):
    """twang_mix64 of folly."""
    key = unsigned(~key + (key << 21), 64)
    key ^= key >> 24
    key = unsigned(key * 265, 64)
    key ^= key >> 14
    key = unsigned(key * 21, 64)
    key ^= key >> 28
    return unsigned(key * ((1 << 31) + 1), 64)


def combined(upper, lower):
    """hash_128_to_64 of folly."""
    a = unsigned((lower ^ upper) * FACTOR, 64)
    a ^= a >> 47
    b = unsigned((upper ^ a) * FACTOR, 64)
    b ^= b >> 47
    return unsigned(b * FACTOR, 64)


async def hashes(dut, cases):
    inputs = [{"value_i": unsigned(value), "salt_i": unsigned(salt, 64)} for value, salt in cases]
    return [hash for hash, in await run(dut, inputs, ["hash_o"], constant("PreprocessHashLatency"))]


@cocotb.test()
async def the_vectors_of_torcharrow(dut):
    await start(dut)
    found = await hashes(dut, [(value, 0) for value in [1, 2, 3, 5, 8, 10, 11]])
    assert [signed(hash, 64) % 100 for hash in found] == [60, 54, 54, 4, 67, 2, 25]
    found = await hashes(dut, [(value, 0) for value in range(16)])
    assert [signed(hash, 64) % 100 for hash in found] == [6, 60, 54, 54, 9, 4, 91, 11, 67, 79, 2, 25, 92, 98, 83, 66]


@cocotb.test()
async def any_value_and_salt(dut):
    await start(dut)
    chance = random.Random(1)
    cases = [(value, chance.choice([0, -1, signed(chance.getrandbits(64), 64)])) for value in values(chance, 5_000)]
    for (value, salt), hash in zip(cases, await hashes(dut, cases), strict=True):
        assert hash == combined(unsigned(salt, 64), mixed(unsigned(value, 64))), (value, salt)


def test_preprocess_hash():
    bench.run("preprocess_hash", [*SOURCES, "services/preprocess_hash.sv"], __file__)
