"""internet_checksum: accepts right sums of any bytes of any frames, and refuses all others."""

import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly

import bench
import frames

LATENCY = 3


def sealed(chance, size):
    """A frame, the range of bytes to sum, and a seed that makes the sum all ones."""
    frame = bytearray(chance.choice((chance.randbytes(size), bytes(size), b"\xff" * size)))
    begin = 2 * chance.randrange(min(size, 64) // 2 + 1)
    end = chance.randint(begin, size)
    # The sum of byte-swapped words is the byte-swapped sum.
    rest = 0xFFFF ^ frames.total(bytes(frame[begin:end]))
    return frame, begin, end, (rest & 0xFF) << 8 | rest >> 8


@cocotb.test()
async def random_frames(dut):
    chance = random.Random(3)
    cocotb.start_soon(Clock(dut.clk_i, 4, unit="ns").start())
    dut.valid_i.value = 0
    await FallingEdge(dut.clk_i)
    answers = {}
    cycle = right = 0

    async def step():
        nonlocal cycle
        await ReadOnly()
        if cycle in answers:
            assert int(dut.good_o.value) == answers.pop(cycle), f"cycle {cycle}"
        await FallingEdge(dut.clk_i)
        cycle += 1
        dut.valid_i.value = 0

    for _ in range(1_500):
        frame, begin, end, seed = sealed(chance, chance.choice((1, 34, 60, 64, 65, 128, 300, 4_000)))
        good = seed != 0 or any(frame[begin:end])  # the sum of zeros is zero, not all ones
        if chance.random() < 0.5 and end > begin:
            place = chance.randrange(begin, end)
            frame[place] ^= 1 << chance.randrange(8)
            good = False
        if chance.random() < 0.2:
            seed = seed + 0xFFFF  # an equal seed in one's complement, with a carry
        for at in range(0, len(frame), 64):
            while chance.random() < 0.1:
                await step()
            mask = sum(1 << place for place in range(64) if begin <= at + place < end)
            dut.valid_i.value = 1
            dut.first_i.value = int(at == 0)
            dut.data_i.value = int.from_bytes(frame[at : at + 64] + chance.randbytes(max(0, at + 64 - len(frame))), "little")
            dut.mask_i.value = mask
            dut.seed_i.value = seed if at == 0 else chance.getrandbits(17)
            if at + 64 >= len(frame):
                answers[cycle + LATENCY] = int(good)
                right += good
            await step()
    for _ in range(LATENCY + 1):
        await step()
    assert not answers and 500 < right < 1_200


def test_internet_checksum():
    bench.run("internet_checksum", ["weft_pkg.sv", "wire/internet_checksum.sv"], __file__)
