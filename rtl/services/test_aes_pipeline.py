"""aes_pipeline: against the cryptography library, for many keys at once."""

import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly

import bench
import gcm

LANES = 4


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
    for number, round_key in enumerate(gcm.round_keys(key)):
        dut.key_write_i.value = 1
        dut.key_index_i.value = index
        dut.key_round_i.value = number
        dut.key_i.value = gcm.number(round_key)
        await FallingEdge(dut.clk_i)
    dut.key_write_i.value = 0


async def encrypt(dut, chance, work, rate):
    """Feeds (index, blocks). Returns the output blocks and the latency of each."""
    found, entered, latencies, cycle = [], [], [], 0
    work = list(work)
    while len(found) < len(entered) or work:
        await FallingEdge(dut.clk_i)
        assert cycle < 10_000, "blocks do not come out"
        valid = bool(work) and chance.random() < rate
        dut.valid_i.value = int(valid)
        dut.index_i.value = chance.randrange(32)
        dut.blocks_i.value = chance.getrandbits(128 * LANES)
        if valid:
            index, blocks = work.pop(0)
            dut.index_i.value = index
            dut.blocks_i.value = gcm.number(b"".join(blocks))
            entered.append(cycle)
        await ReadOnly()
        if int(dut.valid_o.value):
            out = int(dut.blocks_o.value).to_bytes(16 * LANES, "little")
            latencies.append(cycle - entered[len(found)])
            found.append([out[at : at + 16] for at in range(0, len(out), 16)])
        cycle += 1
    return found, set(latencies)


@cocotb.test()
async def many_keys_back_to_back(dut):
    await start(dut)
    chance, rounds = random.Random(1), int(dut.Rounds.value)
    keys = [chance.randbytes(4 * (rounds - 6)) for _ in range(32)]
    for index, key in enumerate(keys):
        await install(dut, index, key)
    for rate in (1.0, 0.5):
        work = [(chance.randrange(32), [chance.randbytes(16) for _ in range(LANES)]) for _ in range(500)]
        found, latencies = await encrypt(dut, chance, work, rate)
        assert found == [[gcm.encrypted(keys[index], block) for block in blocks] for index, blocks in work]
        assert latencies == {rounds + 1}


@cocotb.test()
async def the_key_streams_of_wycheproof(dut):
    await start(dut)
    chance, count = random.Random(2), 0
    for vector in gcm.vectors(32 * (int(dut.Rounds.value) - 6)):
        if not vector["valid"]:
            continue
        await install(dut, 7, vector["key"])
        sealed, plain = vector["sealed"], vector["text"]
        counters = [vector["nonce"] + number.to_bytes(4, "big") for number in range(2, 2 + -(-len(plain) // 64) * 4)]
        work = [(7, counters[at : at + 4]) for at in range(0, len(counters), 4)]
        found, _ = await encrypt(dut, chance, work, 1.0)
        stream = b"".join(sum(found, []))
        assert bytes(a ^ b for a, b in zip(plain, stream)) == sealed
        count += 1
    assert count > 30


SOURCES = ["weft_pkg.sv", "services/aes_pkg.sv", "stream/ram.sv", "services/aes_pipeline.sv"]


def test_aes_256():
    bench.run("aes_pipeline", SOURCES, __file__, parameters={"Rounds": 14})


def test_aes_128():
    bench.run("aes_pipeline", SOURCES, __file__, parameters={"Rounds": 10})
