"""udp_sockets: each datagram goes whole and in order to the engine that opened its port, or to the host."""

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

import bench
from streams import ADDRESS, HARDWARE, PEER, PEER_HARDWARE, Bench, beats, number, packets
from structs import pack, unpack


def datagram(payload, port, source_port=5000, source=PEER):
    frame = bytes(
        Ether(dst=HARDWARE, src=PEER_HARDWARE)
        / IP(src=source, dst=ADDRESS)
        / UDP(sport=source_port, dport=port)
        / payload
    )
    return frame.ljust(60, b"\xee")


class Sockets(Bench):
    async def ready(self, rate=1.0):
        await self.start(clear=70)
        self.host = self.take("host", ["_o", "_timestamp_o"], rate)
        self.datagrams = self.take("datagram", ["_o"], rate)
        self.payload = self.take("payload", ["_o"], rate)

    async def enter(self, port, slot=0, socket=0, valid=1):
        """Opens or closes a port. Returns whether the table accepted it."""
        dut = self.dut
        dut.entry_valid_i.value = 1
        dut.entry_i.value = pack("socket_entry_t", valid=valid, port=port, slot=slot, socket=socket)
        await ReadOnly()
        while not int(dut.entry_done_o.value):
            await FallingEdge(dut.clk_i)
            await ReadOnly()
        refused = int(dut.entry_refused_o.value)
        assert int(dut.entry_ready_o.value)
        await FallingEdge(dut.clk_i)
        dut.entry_valid_i.value = 0
        return not refused

    async def frames(self, frames, rate=1.0):
        items = [
            {"_i": beat, "_timestamp_i": 7 * index}
            for index, frame in enumerate(frames)
            for beat in beats(frame, self.chance)
        ]
        await self.send("frame", items, rate)
        await self.idle()

    def expect(self, sent, open_ports):
        """`sent`: (payload, port, source port, source) in order; `open_ports`: port -> (slot, socket)."""
        to_engines, to_host = [], []
        for index, (payload, port, source_port, source) in enumerate(sent):
            if port in open_ports:
                slot, socket = open_ports[port]
                header = dict(
                    socket=socket,
                    slot=slot,
                    source=number(source),
                    source_port=source_port,
                    destination_port=port,
                    bytes=len(payload),
                    timestamp=7 * index,
                )
                to_engines.append((header, payload))
            else:
                to_host.append((datagram(payload, port, source_port, source), 7 * index))
        headers = [unpack("datagram_received_t", header) for (header,) in self.datagrams]
        assert headers == [header for header, _ in to_engines]
        payloads = packets(beat for (beat,) in self.payload)
        assert payloads == [payload for _, payload in to_engines if payload]
        assert packets(beat for beat, _ in self.host) == [frame for frame, _ in to_host]
        stamps = [stamp for beat, stamp in self.host if beat >> 518]
        assert stamps == [stamp for _, stamp in to_host]
        assert self.events["datagrams_received"] == len(to_engines)


@cocotb.test()
async def any_length(dut):
    sockets = Sockets(dut, 1)
    await sockets.ready()
    assert await sockets.enter(4000, slot=3, socket=200)
    lengths = [*range(0, 160), 1472, 4096, 8972]
    sent = [(sockets.chance.randbytes(length), 4000, 9, PEER) for length in lengths]
    await sockets.frames([datagram(*each) for each in sent])
    sockets.expect(sent, {4000: (3, 200)})


@cocotb.test()
async def a_closed_port_is_the_hosts(dut):
    sockets = Sockets(dut, 2)
    await sockets.ready()
    await sockets.enter(4000, slot=1, socket=1)
    await sockets.enter(4000, slot=2, socket=2)  # opened again: replaces the entry
    await sockets.enter(4001, slot=1, socket=3)
    await sockets.enter(4001, valid=0)
    await sockets.enter(4002, valid=0)  # was not open
    sent = [(b"x" * 30, port, 9, PEER) for port in (4000, 4001, 4002, 4000)]
    await sockets.frames([datagram(*each) for each in sent])
    sockets.expect(sent, {4000: (2, 2)})


@cocotb.test()
async def holds_256_ports_and_refuses_a_full_set(dut):
    sockets = Sockets(dut, 3)
    await sockets.ready()
    for port in range(256):
        assert await sockets.enter(5000 + port, slot=port % 16, socket=port)
    assert not await sockets.enter(6000)
    assert await sockets.enter(5100, slot=4, socket=9)  # is open already
    await sockets.enter(5101, valid=0)
    open_ports = {5000 + port: (port % 16, port) for port in range(256)} | {5100: (4, 9)}
    del open_ports[5101]
    sent = [(bytes([port & 255]) * 8, port, 9, PEER) for port in range(4998, 5260, 3)]
    await sockets.frames([datagram(*each) for each in sent])
    sockets.expect(sent, open_ports)


@cocotb.test()
async def a_slow_engine_loses_whole_datagrams(dut):
    sockets = Sockets(dut, 4)
    await sockets.ready()
    sockets.rates["payload"] = 0.0
    await sockets.enter(4000)
    frames = [datagram(bytes([index]) * 640, 4000) for index in range(80)]
    frames.append(datagram(b"for the host", 4001))
    await sockets.send("frame", [{"_i": beat, "_timestamp_i": 0} for frame in frames for beat in beats(frame)])
    await sockets.cycles(20)
    assert packets(beat for beat, _ in sockets.host) == [frames[-1]], "the host does not wait for an engine"
    lost = sockets.events["drop_datagram_queue_full"]
    assert lost >= 80 - 512 // 10 - 1
    sockets.rates["payload"] = 1.0
    await sockets.idle()
    payloads = packets(beat for (beat,) in sockets.payload)
    assert len(payloads) == 80 - lost
    assert all(len(payload) == 640 and len(set(payload)) == 1 for payload in payloads)


@cocotb.test()
async def under_load(dut):
    sockets = Sockets(dut, 5)
    await sockets.ready(rate=0.8)
    open_ports = {}
    for port in (1, 65535, 4793):
        open_ports[port] = (port % 16, port % 256)
        await sockets.enter(port, *open_ports[port])
    chance = sockets.chance
    sent = [
        (chance.randbytes(chance.randrange(300)), chance.choice((1, 65535, 4793, 77)), chance.randrange(65536), PEER)
        for _ in range(120)
    ]
    await sockets.frames([datagram(*each) for each in sent], rate=0.7)
    sockets.expect(sent, open_ports)


def test_udp_sockets():
    sources = ["weft_pkg.sv", "stream/fifo.sv", "stream/ram.sv", "nic/frame_buffer.sv", "nic/udp_sockets.sv"]
    bench.run("udp_sockets", sources, __file__)
