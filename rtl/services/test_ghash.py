"""ghash: against GCM's definition, and with every tag of Wycheproof."""

import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly

import bench
import gcm

LATENCY = 3


async def start(dut):
    cocotb.start_soon(Clock(dut.clk_i, 4, unit="ns").start())
    dut.rst_ni.value = 0
    dut.key_write_i.value = 0
    dut.valid_i.value = 0
    for _ in range(3):
        await FallingEdge(dut.clk_i)
    dut.rst_ni.value = 1


async def install(dut, index, key):
    await FallingEdge(dut.clk_i)
    for power, value in enumerate(gcm.powers(key)):
        dut.key_write_i.value = 1
        dut.key_index_i.value = index
        dut.key_power_i.value = power
        dut.key_i.value = gcm.number(value)
        await FallingEdge(dut.clk_i)
    dut.key_write_i.value = 0


async def hashes(dut, chance, messages, rate):
    """Feeds messages, given as (index, blocks), without gaps. Returns their hashes."""
    groups = []
    for index, blocks in messages:
        for at in range(0, len(blocks), 4):
            groups.append((index, at == 0, at + 4 >= len(blocks), blocks[at : at + 4]))
    found, ends, cycle = [], [], 0
    while groups or len(found) < len(messages):
        await FallingEdge(dut.clk_i)
        assert cycle < 10_000, "hashes do not come out"
        valid = bool(groups) and chance.random() < rate
        dut.valid_i.value = int(valid)
        dut.index_i.value = chance.randrange(32)
        dut.blocks_i.value = chance.getrandbits(512)
        if valid:
            index, first, last, blocks = groups.pop(0)
            dut.index_i.value, dut.first_i.value, dut.last_i.value = index, int(first), int(last)
            dut.count_i.value = len(blocks)
            # Blocks beyond the count are random.
            filled = b"".join(blocks) + chance.randbytes(64 - 16 * len(blocks))
            dut.blocks_i.value = gcm.number(filled)
            if last:
                ends.append(cycle)
        await ReadOnly()
        if int(dut.valid_o.value):
            assert cycle == ends[len(found)] + LATENCY
            found.append(int(dut.hash_o.value).to_bytes(16, "little"))
        cycle += 1
    return found


@cocotb.test()
async def messages_of_all_lengths(dut):
    await start(dut)
    chance = random.Random(1)
    keys = [chance.randbytes(32) for _ in range(32)]
    for index, key in enumerate(keys):
        await install(dut, index, key)
    for rate in (1.0, 0.6):
        messages = []
        for count in [*range(1, 20), 260]:
            messages += [(chance.randrange(32), [chance.randbytes(16) for _ in range(count)]) for _ in range(3)]
        chance.shuffle(messages)
        found = await hashes(dut, chance, messages, rate)
        assert found == [gcm.ghash(keys[index], blocks) for index, blocks in messages]


@cocotb.test()
async def the_tags_of_wycheproof(dut):
    """The tag is right where the vector is valid, and wrong where it is not."""
    await start(dut)
    chance, count = random.Random(2), 0
    for bits in (128, 256):
        for vector in gcm.vectors(bits):
            await install(dut, 5, vector["key"])
            blocks = gcm.hashed(vector["associated"], vector["sealed"])
            (found,) = await hashes(dut, chance, [(5, blocks)], 1.0)
            mask = gcm.encrypted(vector["key"], vector["nonce"] + b"\0\0\0\1")
            tag = bytes(a ^ b for a, b in zip(found, mask))
            assert (tag == vector["tag"]) == vector["valid"]
            count += 1
    assert count > 100


NAMES = ["aes_pkg", "carryless_multiplier", "ghash"]
SOURCES = ["weft_pkg.sv", "stream/ram.sv", *(f"services/{name}.sv" for name in NAMES)]


def test_ghash():
    bench.run("ghash", SOURCES, __file__, parameters={"Leaf": 128})
