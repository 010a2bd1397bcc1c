"""icmp_echo: replies as scapy computes them, byte for byte."""

import cocotb
from scapy.layers.inet import ICMP, IP
from scapy.layers.l2 import Ether

import bench
from streams import ADDRESS, HARDWARE, PEER, PEER_HARDWARE, Bench, beats, number, packets


def request(chance, payload, **fields):
    return bytes(
        Ether(dst=HARDWARE, src=PEER_HARDWARE)
        / IP(src=PEER, dst=ADDRESS, ttl=chance.randrange(1, 256), id=chance.randrange(65536), tos=fields.get("tos", 0), flags=2)
        / ICMP(type=8, id=chance.randrange(65536), seq=chance.randrange(65536))
        / payload
    )  # fmt: skip


def answer(frame):
    packet = Ether(frame)
    packet.src, packet.dst = HARDWARE, packet.src
    packet[IP].src, packet[IP].dst = packet[IP].dst, packet[IP].src
    packet[IP].ttl = 64
    packet[ICMP].type = 0
    del packet[IP].chksum, packet[ICMP].chksum
    return bytes(packet)


async def exchange(dut, seed, requests, in_rate, out_rate, pad=0):
    echo = Bench(dut, seed)
    await echo.start(hardware_i=number(HARDWARE))
    taken = echo.take("out", ["_o"], rate=out_rate)
    stream = [beat for frame in requests for beat in beats(frame + bytes([0xEE] * pad), echo.chance)]
    await echo.send("frame", [{"_i": beat} for beat in stream], rate=in_rate)
    await echo.idle()
    answers = packets(beat for (beat,) in taken)
    assert len(answers) == len(requests)
    for frame, got in zip(requests, answers):
        assert got == answer(frame), f"{len(frame)} bytes"
    assert echo.events["echo_replies"] == len(requests)


@cocotb.test()
async def answers_any_length(dut):
    chance = Bench(dut, 1).chance
    lengths = [*range(0, 140), 1472, 4096, 8972]
    await exchange(dut, 1, [request(chance, chance.randbytes(length)) for length in lengths], 1.0, 1.0)


@cocotb.test()
async def cuts_off_what_lies_behind(dut):
    chance = Bench(dut, 2).chance
    for pad in (1, 18, 64, 130):
        lengths = (0, 21, 22, 23, 86)
        await exchange(dut, 2, [request(chance, chance.randbytes(length)) for length in lengths], 1.0, 1.0, pad)


@cocotb.test()
async def under_load(dut):
    chance = Bench(dut, 3).chance
    frames = [request(chance, chance.randbytes(chance.randrange(400)), tos=chance.randrange(256)) for _ in range(150)]
    await exchange(dut, 3, frames, 0.7, 0.6)


@cocotb.test()
async def checksums_at_the_ends_of_their_range(dut):
    """Sums with carries, and replies whose checksums are 0 or 0xffff."""
    chance = Bench(dut, 4).chance
    frames = []
    for word in (0x0000, 0x0001, 0xF7FE, 0xF7FF, 0xF800, 0xFFFE, 0xFFFF):
        for ident in (0x0001, 0xFFFF):
            packet = Ether(request(chance, word.to_bytes(2, "big")))
            packet[ICMP].id, packet[ICMP].seq = ident, 0
            del packet[ICMP].chksum
            frames.append(bytes(packet))
    await exchange(dut, 4, frames, 1.0, 1.0)


def test_icmp_echo():
    bench.run("icmp_echo", ["weft_pkg.sv", "nic/icmp_echo.sv"], __file__)
