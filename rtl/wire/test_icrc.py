"""icrc: against scapy's ICRC and a byte-wise CRC of the pseudo packet, for every fill level of the last beat."""

import random
import zlib

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly
from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

import bench
from structs import pack


def icrc(frame):
    """The CRC over the pseudo packet of a frame without its ICRC."""
    covered = bytearray(frame[14:])
    for place in (1, 8, 10, 11, 26, 27, 32):
        covered[place] = 0xFF
    return zlib.crc32(b"\xff" * 8 + covered)


def random_frame(chance, length):
    """A frame of this length that ends with its ICRC; fields that the ICRC ignores are random as well."""
    content = chance.randbytes(length - 4)
    return content + icrc(content).to_bytes(4, "little")


def beats(frame, chance):
    """The beats of a frame. Bytes behind its end are random."""
    for at in range(0, len(frame), 64):
        part = frame[at : at + 64]
        data = part + chance.randbytes(64 - len(part))
        last = at + 64 >= len(frame)
        yield pack("beat_t", last=last, empty=64 - len(part) if last else 0, data=int.from_bytes(data, "little"))


async def feed(dut, chance, frames, rate):
    """Feeds frames. Returns the cycles of their ends, and the results with their cycles."""
    trailer = int(dut.Trailer.value)
    ends, results, cycle = [], [], 0

    async def step(beat):
        nonlocal cycle
        await FallingEdge(dut.clk_i)
        dut.valid_i.value = int(beat is not None)
        dut.beat_i.value = beat if beat is not None else chance.getrandbits(519)
        await ReadOnly()
        if trailer and int(dut.checked_valid_o.value):
            results.append((cycle, int(dut.checked_good_o.value)))
        if not trailer and int(dut.crc_valid_o.value):
            results.append((cycle, int(dut.crc_o.value)))
        cycle += 1

    for frame in frames:
        for beat in beats(frame, chance):
            while chance.random() >= rate:
                await step(None)
            await step(beat)
        ends.append(cycle - 1)
    for _ in range(8):
        await step(None)
    assert [end + int(dut.Latency.value) for end in ends] == [at for at, _ in results]
    return [result for _, result in results]


async def start(dut):
    cocotb.start_soon(Clock(dut.clk_i, 4, unit="ns").start())
    dut.rst_ni.value = 0
    dut.valid_i.value = 0
    for _ in range(2):
        await FallingEdge(dut.clk_i)
    dut.rst_ni.value = 1


LENGTHS = [*range(58, 500, 4), 1_082, 4_150, 4_154, 4_158]


@cocotb.test()
async def every_fill_at_full_rate_and_with_gaps(dut):
    await start(dut)
    chance = random.Random(1)
    for rate in (1.0, 0.6):
        frames = [random_frame(chance, length) for length in LENGTHS]
        chance.shuffle(frames)
        if int(dut.Trailer.value):
            assert await feed(dut, chance, frames, rate) == [1] * len(frames)
        else:
            places = [frame[:-4] + bytes(4) for frame in frames]
            expected = [int.from_bytes(frame[-4:], "little") for frame in frames]
            assert await feed(dut, chance, places, rate) == expected


@cocotb.test()
async def what_scapy_computes(dut):
    await start(dut)
    chance = random.Random(2)
    frames = []
    for length in (0, 4, 8, 20, 60, 64, 100, 1_024, 4_096):
        packet = (
            Ether(dst=chance.randbytes(6), src=chance.randbytes(6))
            / IP(src="10.0.0.1", dst="10.0.0.2", tos=chance.randrange(256), ttl=chance.randrange(1, 256), flags="DF")
            / UDP(sport=chance.randrange(65_536), dport=4_791, chksum=0)
            / BTH(opcode=4, dqpn=chance.getrandbits(24), psn=chance.getrandbits(24), fecn=chance.randrange(2))
            / Raw(chance.randbytes(length))
        )
        frames.append(bytes(packet))
    if int(dut.Trailer.value):
        assert await feed(dut, chance, frames, 1) == [1] * len(frames)
    else:
        expected = [int.from_bytes(frame[-4:], "little") for frame in frames]
        assert await feed(dut, chance, [frame[:-4] + bytes(4) for frame in frames], 1) == expected


@cocotb.test()
async def any_flipped_bit_is_seen_where_it_counts(dut):
    await start(dut)
    if not int(dut.Trailer.value):
        return
    chance = random.Random(3)
    frame = random_frame(chance, 138)
    free = {*range(14), 15, 22, 24, 25, 40, 41, 46}
    damaged, expected = [], []
    for bit in range(len(frame) * 8):
        bytes_ = bytearray(frame)
        bytes_[bit // 8] ^= 1 << bit % 8
        damaged.append(bytes(bytes_))
        expected.append(int(bit // 8 in free))
    # An intact frame between damaged ones is accepted.
    damaged.append(frame)
    expected.append(1)
    # Lengths that no RoCE packet has, also such that leave the register at zero.
    damaged += [frame + bytes(count) for count in (1, 2, 3)] + [frame[:-count] for count in (1, 2, 3, 4)]
    expected += [0] * 7
    assert await feed(dut, chance, damaged, 1) == expected


SOURCES = ["weft_pkg.sv", "wire/crc_pkg.sv", "wire/crc_scale.sv", "wire/icrc.sv"]


def test_icrc_to_transmit():
    bench.run("icrc", SOURCES, __file__, parameters={"Trailer": 0})


def test_icrc_to_check():
    bench.run("icrc", SOURCES, __file__, parameters={"Trailer": 1})
