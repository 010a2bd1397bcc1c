"""sniffer: scapy reads its output behind the blocks that software writes; no frame on the wire is changed, delayed
or missed."""

import io
import struct

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import RawPcapNgReader

import bench
from streams import ADDRESS, HARDWARE, PEER, PEER_HARDWARE, Bench, beats, number, packets
from structs import pack


def option(code, value):
    return struct.pack("<HH", code, len(value)) + value + bytes(-len(value) % 4)


def block(kind, body):
    return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)


# The blocks that software writes once: a section and two Ethernet interfaces with nanosecond time stamps.
PROLOGUE = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)) + 2 * block(
    1, struct.pack("<HHI", 1, 0, 0) + option(9, b"\x09") + option(0, b"")
)


def enhanced(interface, cycles, frame, snap):
    """The block that the soft NIC's capture would hold."""
    part = frame[:snap] if snap else frame
    stamp = 4 * cycles
    body = struct.pack("<IIIII", interface, stamp >> 32, stamp & 0xFFFFFFFF, len(part), len(frame))
    body += part + bytes(-len(part) % 4) + option(2, struct.pack("<I", interface + 1)) + option(0, b"")
    return block(6, body)


def roce(qp, payload=b"", to=ADDRESS):
    bth = struct.pack(">BBHII", 4, 0, 0xFFFF, qp, 0)
    return bytes(
        Ether(dst=HARDWARE, src=PEER_HARDWARE) / IP(src=PEER, dst=to) / UDP(sport=50000, dport=4791) / (bth + payload)
    )


class Tap(Bench):
    async def ready(self, rate=1.0, **config):
        self.now = config.pop("now", 1_000)
        await self.start(config_i=pack("sniffer_config_t", **config))
        self.blocks = self.take("out", ["_o"], rate)

    async def passes(self, side, frames, rate=1.0):
        """Sends frames past the tap. Returns (cycle of the first beat, frame) for each."""
        passed = []
        valid, data = getattr(self.dut, f"{side}_valid_i"), getattr(self.dut, f"{side}_i")
        for frame in frames:
            first = None
            for beat in beats(frame, self.chance):
                while self.chance.random() >= rate:
                    await FallingEdge(self.dut.clk_i)
                valid.value, data.value = 1, beat
                await ReadOnly()
                first = first or int(self.dut.now_i.value)
                await FallingEdge(self.dut.clk_i)
                valid.value = 0
            passed.append((first, frame))
        return passed

    def got(self):
        return packets(beat for (beat,) in self.blocks)


@cocotb.test()
@cocotb.parametrize(snap=[0, 1, 54, 64, 65, 128, 200])
async def any_length_whole_and_cut(dut, snap):
    tap = Tap(dut, snap)
    await tap.ready(receive=1, snap=snap, now=(1 << 47) + 12345)
    lengths = [14, *range(60, 70), *range(80, 140, 3), 150, 256, 500]
    passed = await tap.passes("receive", [tap.chance.randbytes(length) for length in lengths])
    await tap.idle()
    assert tap.got() == [enhanced(0, cycles, frame, snap) for cycles, frame in passed]


@cocotb.test()
async def scapy_reads_both_directions(dut):
    tap = Tap(dut, 2)
    await tap.ready(receive=1, transmit=1, rate=0.9)
    sides = ("receive", "transmit")
    frames = {side: [tap.chance.randbytes(tap.chance.randrange(60, 300)) for _ in range(25)] for side in sides}
    tasks = [cocotb.start_soon(tap.passes(side, frames[side], 0.15)) for side in sides]
    passed = [await task for task in tasks]
    await tap.idle()
    blocks = tap.got()
    for interface in (0, 1):
        mine = [each for each in blocks if struct.unpack_from("<I", each, 8)[0] == interface]
        assert mine == [enhanced(interface, cycles, frame, 0) for cycles, frame in passed[interface]]
    read = list(RawPcapNgReader(io.BytesIO(PROLOGUE + b"".join(blocks))))
    assert all(meta.tsresol == 10**9 and meta.wirelen == len(data) for data, meta in read)
    stamped = sorted((4 * cycles, frame) for side in passed for cycles, frame in side)
    assert sorted((meta.tshigh << 32 | meta.tslow, data) for data, meta in read) == stamped
    assert tap.events["sniffed_received"] == tap.events["sniffed_sent"] == 25


@cocotb.test()
async def filters(dut):
    others = [
        bytes(Ether() / IP(src=PEER, dst="10.0.0.9") / UDP(dport=53) / bytes(30)),
        bytes(Ether(type=0x0806)).ljust(60, b"\0"),
        bytes(Ether() / IP(src="10.0.0.9", dst=PEER, proto=6)).ljust(60, b"\0"),
    ]
    packets_of = [roce(5), roce(6, bytes(100)), roce(5, bytes(200), to="10.0.0.9")]
    frames = [packets_of[0], others[0], packets_of[1], others[1], packets_of[2], others[2]]
    cases = [
        (dict(receive=1), frames),
        (dict(receive=1, roce_only=1), packets_of),
        (dict(receive=1, match_qp=1, qp=5), [packets_of[0], packets_of[2]]),
        (dict(receive=1, match_address=1, address=number("10.0.0.9")), [others[0], packets_of[2], others[2]]),
        (dict(receive=1, roce_only=1, match_address=1, address=number("10.0.0.9")), [packets_of[2]]),
        (dict(transmit=1), []),
    ]
    tap = Tap(dut, 3)
    await tap.ready()
    for config, expected in cases:
        dut.config_i.value = pack("sniffer_config_t", **config)
        await tap.passes("receive", frames)
        await tap.idle()
        got = [each[28 : 28 + struct.unpack_from("<I", each, 20)[0]] for each in tap.got()]
        assert got == expected, config
        tap.blocks.clear()


@cocotb.test()
async def drops_and_counts_when_nobody_reads(dut):
    tap = Tap(dut, 4)
    await tap.ready(receive=1, transmit=1, rate=0.0)
    frames = [bytes([index]) * 640 for index in range(80)]
    both = [cocotb.start_soon(tap.passes(side, frames)) for side in ("receive", "transmit")]
    for task in both:
        await task
    await tap.cycles(10)
    tap.rates["out"] = 1.0
    await tap.idle()
    assert tap.events["sniffed_received"] + tap.events["drop_sniffed_received"] == 80
    assert tap.events["sniffed_sent"] + tap.events["drop_sniffed_sent"] == 80
    assert tap.events["drop_sniffed_received"] > 20
    blocks = tap.got()
    assert len(blocks) == tap.events["sniffed_received"] + tap.events["sniffed_sent"]
    assert all(len(set(each[28:668])) == 1 for each in blocks)


@cocotb.test()
async def under_load_with_a_snap_length(dut):
    tap = Tap(dut, 5)
    await tap.ready(receive=1, transmit=1, roce_only=1, snap=100, rate=0.8)
    frames = [
        tap.chance.choice((roce(tap.chance.randrange(9), tap.chance.randbytes(tap.chance.randrange(400))),
                           tap.chance.randbytes(100)))
        for _ in range(60)
    ]  # fmt: skip
    both = [cocotb.start_soon(tap.passes(side, frames, 0.6)) for side in ("receive", "transmit")]
    passed = [await task for task in both]
    await tap.idle()
    blocks = tap.got()
    for interface in (0, 1):
        mine = [each for each in blocks if struct.unpack_from("<I", each, 8)[0] == interface]
        wanted = [(cycles, frame) for cycles, frame in passed[interface] if frame[36:38] == struct.pack(">H", 4791)]
        assert mine == [enhanced(interface, cycles, frame, 100) for cycles, frame in wanted]


def test_sniffer():
    sources = ["stream/fifo.sv", "stream/ram.sv", "stream/arbiter.sv", "nic/frame_buffer.sv", "nic/sniffer_tap.sv", "nic/sniffer.sv"]
    bench.run("sniffer", ["weft_pkg.sv", *sources], __file__)
