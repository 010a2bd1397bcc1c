"""frame_services: each class of frames reaches its block, and the neighbour of a datagram is resolved by ARP."""

import cocotb
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.l2 import ARP, Ether

import bench
from streams import ADDRESS, HARDWARE, PEER, PEER_HARDWARE, Bench, beats, number, packets
from structs import constant, pack, unpack


class Services(Bench):
    async def ready(self):
        await self.start(clear=140, hardware_i=number(HARDWARE), address_i=number(ADDRESS), age_limit_i=0)
        self.control = self.take("control", ["_o"], 0.7)
        self.datagrams = self.take("datagram", ["_o"], 0.7)
        self.to_host = self.take("to_host", ["_o", "_bytes_o", "_timestamp_o"], 0.7)
        self.received = self.take("datagram_received", ["_o"], 0.7)
        self.payload = self.take("payload_received", ["_o"], 0.7)
        self.host = self.take("host", ["_o"], 0.7)

    async def frames(self, frames):
        """Sends frames, each given as (class, frame). The time stamp is the index of the frame."""
        items = [
            {"_i": beat, "_class_i": constant(kind), "_timestamp_i": index}
            for index, (kind, frame) in enumerate(frames)
            for beat in beats(frame.ljust(60, b"\0"), self.chance)
        ]
        await self.send("other", items, 0.8)
        await self.idle()


def datagram(port, payload):
    return bytes(Ether(dst=HARDWARE, src=PEER_HARDWARE) / IP(src=PEER, dst=ADDRESS) / UDP(sport=7, dport=port) / payload)


@cocotb.test()
async def each_class_to_its_block(dut):
    services = Services(dut, 1)
    await services.ready()
    await services.send("socket", [{"_i": pack("socket_entry_t", valid=1, port=4793, slot=2, socket=5)}])
    echo = bytes(Ether(dst=HARDWARE, src=PEER_HARDWARE) / IP(src=PEER, dst=ADDRESS) / ICMP(type=8) / bytes(100))
    arp = bytes(Ether(src=PEER_HARDWARE) / ARP(hwsrc=PEER_HARDWARE, psrc=PEER, pdst=ADDRESS))
    other = bytes(Ether(dst=HARDWARE, src=PEER_HARDWARE, type=0x86DD)) + bytes(200)
    kinds = {
        "OtherArp": arp,
        "OtherEcho": echo,
        "OtherHost": other,
        "engine": datagram(4793, b"for the engine " * 20),
        "closed": datagram(4794, b"for the host"),
    }
    order = services.chance.choices(list(kinds), k=80)
    await services.frames(
        [(kind if kind.startswith("Other") else "OtherDatagram", kinds[kind]) for kind in order]
    )
    answers = [Ether(frame) for frame in packets(beat for (beat,) in services.control)]
    assert sum(ARP in answer for answer in answers) == order.count("OtherArp")
    assert sum(ICMP in answer for answer in answers) == order.count("OtherEcho")
    assert len(answers) == order.count("OtherArp") + order.count("OtherEcho")
    lasts = [(count, stamp) for beat, count, stamp in services.to_host if beat >> 518]
    wanted = [(len(kinds[kind].ljust(60)), index) for index, kind in enumerate(order) if kind in ("OtherHost", "closed")]
    assert sorted(lasts, key=lambda last: last[1]) == wanted
    told = [unpack("datagram_received_t", header) for (header,) in services.received]
    assert [header["timestamp"] for header in told] == [index for index, kind in enumerate(order) if kind == "engine"]
    assert packets(beat for (beat,) in services.payload) == [b"for the engine " * 20] * order.count("engine")


@cocotb.test()
async def a_datagram_waits_for_its_neighbour(dut):
    services = Services(dut, 2)
    await services.ready()

    async def send():
        header = pack("datagram_send_t", destination=number(PEER), destination_port=9, source_port=8, bytes=5)
        await services.send("datagram_send", [{"_i": header}])
        await services.send("payload_send", [{"_i": beat} for beat in beats(b"hello")])
        await services.idle()

    await send()
    assert services.datagrams == []
    (question,) = (Ether(frame) for frame in packets(beat for (beat,) in services.control))
    assert (question[ARP].op, question[ARP].pdst) == (1, PEER)
    answer = Ether(dst=HARDWARE, src=PEER_HARDWARE) / ARP(
        op=2, hwsrc=PEER_HARDWARE, psrc=PEER, hwdst=HARDWARE, pdst=ADDRESS
    )
    await services.frames([("OtherArp", bytes(answer))])
    await send()
    (frame,) = (Ether(frame) for frame in packets(beat for (beat,) in services.datagrams))
    assert frame.dst == PEER_HARDWARE and bytes(frame[UDP].payload) == b"hello"


@cocotb.test()
async def a_stalled_host_stops_nothing_else(dut):
    services = Services(dut, 3)
    await services.ready()
    services.rates["to_host"] = 0.0
    echo = bytes(Ether(dst=HARDWARE, src=PEER_HARDWARE) / IP(src=PEER, dst=ADDRESS) / ICMP(type=8) / bytes(100))
    frames = [("OtherHost", bytes(Ether(type=0x86DD)) + bytes(400))] * 100 + [("OtherEcho", echo)]
    items = [
        {"_i": beat, "_class_i": constant(kind), "_timestamp_i": 0} for kind, frame in frames for beat in beats(frame)
    ]
    await services.send("other", items)
    await services.cycles(10)
    assert len(packets(beat for (beat,) in services.control)) == 1


def test_frame_services():
    blocks = "frame_buffer beat_sum arp neighbour_lookups icmp_echo udp_sockets host_frames datagram_transmit frame_services".split()
    streams = [f"stream/{name}.sv" for name in ("fifo", "ram", "arbiter")]
    bench.run("frame_services", ["weft_pkg.sv", *streams, *(f"nic/{name}.sv" for name in blocks)], __file__)
