"""datagram_transmit: frames as scapy builds them; datagrams to unknown neighbours are dropped."""

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

import bench
from streams import ADDRESS, HARDWARE, PEER, PEER_HARDWARE, Bench, beats, number, packets
from structs import pack

KNOWN = {number(PEER): number(PEER_HARDWARE), number("255.255.255.254"): number("ff:fe:fd:fc:fb:fa")}


class Sender(Bench):
    async def ready(self, out_rate=1.0, answer_rate=1.0):
        await self.start(hardware_i=number(HARDWARE), address_i=number(ADDRESS))
        self.frames = self.take("out", ["_o", "_stamp_o", "_tag_o"], out_rate)
        cocotb.start_soon(self._answer(answer_rate))

    async def _answer(self, rate):
        """Model of the neighbour table."""
        dut = self.dut
        while True:
            dut.lookup_ready_i.value = 1
            await ReadOnly()
            asked = int(dut.lookup_o.value) if int(dut.lookup_valid_o.value) else None
            await FallingEdge(dut.clk_i)
            if asked is None:
                continue
            dut.lookup_ready_i.value = 0
            while self.chance.random() >= rate:
                await FallingEdge(dut.clk_i)
            dut.result_hit_i.value = int(asked in KNOWN)
            dut.result_mac_i.value = KNOWN.get(asked, 0)
            dut.result_valid_i.value = 1
            await ReadOnly()
            while not int(dut.result_ready_o.value):
                await FallingEdge(dut.clk_i)
                await ReadOnly()
            await FallingEdge(dut.clk_i)
            dut.result_valid_i.value = 0

    async def send_all(self, datagrams, rate=1.0):
        """Sends datagrams, each given as (payload, destination, port, source port, tag or None)."""
        headers = [
            {
                "_i": pack(
                    "datagram_send_t",
                    destination=number(destination),
                    destination_port=port,
                    source_port=source_port,
                    bytes=len(payload),
                    stamp=tag is not None,
                    tag=tag or 0,
                )
            }
            for payload, destination, port, source_port, tag in datagrams
        ]
        payloads = [{"_i": beat} for datagram in datagrams for beat in beats(datagram[0], self.chance)]
        both = [
            cocotb.start_soon(self.send("datagram", headers, rate)),
            cocotb.start_soon(self.send("payload", payloads, rate)),
        ]
        for each in both:
            await each
        await self.idle()
        got = packets(beat for beat, _, _ in self.frames)
        wanted = [
            bytes(
                Ether(dst=":".join(f"{byte:02x}" for byte in KNOWN[number(to)].to_bytes(6, "big")), src=HARDWARE)
                / IP(src=ADDRESS, dst=to, id=0, flags="DF", ttl=64)
                / UDP(sport=source_port, dport=port)
                / payload
            )
            for payload, to, port, source_port, _ in datagrams
            if number(to) in KNOWN
        ]
        assert len(got) == len(wanted)
        for frame, expected in zip(got, wanted):
            assert frame == expected, f"{len(expected)} bytes"
        firsts = [item for before, item in zip([(1 << 518, 0, 0), *self.frames], self.frames) if before[0] >> 518]
        tags = [datagram[4] for datagram in datagrams if number(datagram[1]) in KNOWN]
        assert [tag if stamp else None for _, stamp, tag in firsts] == tags
        assert self.events["datagrams_sent"] == len(wanted)
        assert self.events["neighbour_unresolved"] == len(datagrams) - len(wanted)


@cocotb.test()
async def any_length(dut):
    sender = Sender(dut, 1)
    await sender.ready()
    lengths = [*range(0, 160), 1472, 4096, 8972]
    await sender.send_all([(sender.chance.randbytes(length), PEER, 4793, 5000, None) for length in lengths])


@cocotb.test()
async def drops_for_unknown_neighbours(dut):
    sender = Sender(dut, 2)
    await sender.ready()
    others = [PEER, "10.0.0.77", "10.0.0.78", PEER, "10.0.0.77"]
    await sender.send_all([(bytes(200), to, 1, 2, 3) for to in others])


@cocotb.test()
async def a_checksum_of_zero_is_sent_as_ones(dut):
    sender = Sender(dut, 3)
    await sender.ready()
    # Exactly one 16-bit word makes the sum all ones, so that the checksum would be zero.
    payload = None
    frame = Ether(bytes(Ether() / IP(src=ADDRESS, dst=PEER) / UDP(sport=2, dport=1) / bytes(2)))
    for word in (frame[UDP].chksum,):
        payload = word.to_bytes(2, "big")
    await sender.send_all([(payload, PEER, 1, 2, None)])
    (frame,) = packets(beat for beat, _, _ in sender.frames)
    assert frame[40:42] == b"\xff\xff"


@cocotb.test()
async def under_load(dut):
    sender = Sender(dut, 4)
    await sender.ready(out_rate=0.7, answer_rate=0.1)
    chance = sender.chance
    datagrams = [
        (
            chance.choice((chance.randbytes, lambda count: b"\xff" * count))(chance.randrange(300)),
            chance.choice((PEER, "255.255.255.254", "10.0.0.3")),
            chance.randrange(65536),
            chance.randrange(65536),
            chance.choice((None, chance.randrange(256))),
        )
        for _ in range(120)
    ]
    await sender.send_all(datagrams, rate=0.6)


def test_datagram_transmit():
    sources = ["stream/fifo.sv", "stream/ram.sv", "nic/frame_buffer.sv", "nic/beat_sum.sv", "nic/datagram_transmit.sv"]
    bench.run("datagram_transmit", ["weft_pkg.sv", *sources], __file__)
