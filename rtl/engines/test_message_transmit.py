"""message_transmit: frames as zlib and scapy build them, to every peer of a set and back to callers."""

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly

import bench
from datagrams import PEERS, PORT, STATIONS, datagram, frame, message
from streams import ADDRESS, HARDWARE, Bench, beats, number, packets
from structs import pack

ENGINE = 3
CLIENT = "10.0.9.9"
CLIENT_STATION = "02:00:00:00:09:09"
MAXIMUM = 1448


def reply(kind, payload, address=CLIENT, station=CLIENT_STATION, port=40_000):
    caller = {"kind": 0, "mac": number(station), "address": number(address), "port": port}
    fields = {"reply": 1, "to": 0xFFFF, "caller": caller, "message": kind, "bytes": len(payload)}
    expected = [frame(datagram([message(kind, payload, ENGINE)]), ADDRESS, HARDWARE, PORT, address, station, port)]
    return pack("engine_message_t", **fields), payload, expected if len(payload) <= MAXIMUM else []


def send(kind, payload, nodes, dropped=()):
    """A message to the peers of a set. The peers in `dropped` cannot be reached."""
    to = sum(1 << node for node in nodes)
    # The `caller` of a message that is no reply is ignored.
    caller = {"kind": 0, "mac": 0x123456, "address": 0x99999999, "port": 0x5555}
    packed = pack("engine_message_t", reply=0, to=to, caller=caller, message=kind, bytes=len(payload))
    content = datagram([message(kind, payload, ENGINE)])
    expected = [
        frame(content, ADDRESS, HARDWARE, PORT, PEERS[node], STATIONS[node], PORT)
        for node in sorted(nodes)
        if node not in dropped and len(payload) <= MAXIMUM
    ]
    return packed, payload, expected


class Sender(Bench):
    async def ready(self, out_rate=1.0, nodes=range(16), known=range(16)):
        self.clock = 0
        self.first_in = self.first_out = None
        self.known = {number(PEERS[node]): number(STATIONS[node]) for node in known}
        self.asked = []
        await self.start(
            hardware_i=number(HARDWARE),
            address_i=number(ADDRESS),
        )
        for node in nodes:
            await self.set_peer(node, PEERS[node])
        self.frames = self.take("out", ["_o"], out_rate)
        cocotb.start_soon(self._answer())
        cocotb.start_soon(self._watch())

    async def set_peer(self, node, address):
        self.dut.peer_valid_i.value = 1
        self.dut.peer_node_i.value = node
        self.dut.peer_i.value = pack("peer_t", valid=1, address=number(address))
        await FallingEdge(self.dut.clk_i)
        self.dut.peer_valid_i.value = 0

    async def _watch(self):
        while True:
            await FallingEdge(self.dut.clk_i)
            self.clock += 1
            await ReadOnly()
            if int(self.dut.message_valid_i.value) and self.first_in is None:
                self.first_in = self.clock
            if int(self.dut.out_valid_o.value) and self.first_out is None:
                self.first_out = self.clock

    async def _answer(self):
        """Model of the neighbour table."""
        dut = self.dut
        while True:
            dut.lookup_ready_i.value = 1
            await ReadOnly()
            asked = int(dut.lookup_o.value) if int(dut.lookup_valid_o.value) else None
            await FallingEdge(dut.clk_i)
            if asked is None:
                continue
            self.asked.append(asked)
            dut.lookup_ready_i.value = 0
            for _ in range(self.chance.choice((0, 3))):
                await FallingEdge(dut.clk_i)
            dut.result_hit_i.value = int(asked in self.known)
            dut.result_mac_i.value = self.known.get(asked, 0)
            dut.result_valid_i.value = 1
            await ReadOnly()
            while not int(dut.result_ready_o.value):
                await FallingEdge(dut.clk_i)
                await ReadOnly()
            await FallingEdge(dut.clk_i)
            dut.result_valid_i.value = 0

    async def give(self, messages, rate=1.0):
        """Sends messages, each followed directly by its body; the body may arrive at once."""
        dut = self.dut
        for packed, payload, _ in messages:
            while self.chance.random() >= rate:
                await FallingEdge(dut.clk_i)
            rest = beats(payload, self.chance)
            dut.message_valid_i.value = 1
            dut.message_i.value = packed
            offered = True
            while offered or rest:
                if rest:
                    dut.body_valid_i.value = 1
                    dut.body_i.value = rest[0]
                await ReadOnly()
                taken = offered and int(dut.message_ready_o.value)
                if rest and int(dut.body_ready_o.value):
                    rest.pop(0)
                await FallingEdge(dut.clk_i)
                dut.body_valid_i.value = 0
                if taken:
                    offered = False
                    dut.message_valid_i.value = 0

    async def expect(self, messages, rate=1.0):
        await self.give(messages, rate)
        await self.idle()
        got = packets(value for (value,) in self.frames)
        expected = [data for _, _, frames in messages for data in frames]
        assert len(got) == len(expected)
        for mine, theirs in zip(got, expected):
            assert mine == theirs, f"\n{mine.hex()}\n{theirs.hex()}"
        self.frames.clear()


@cocotb.test()
async def every_length(dut):
    sender = Sender(dut, 1)
    await sender.ready()
    for length in (*range(200), 511, 512, 513, 1023, 1024, 1100, *range(1380, MAXIMUM + 1)):
        await sender.cycles(1)
        sender.first_in = sender.first_out = None
        await sender.expect([reply(length & 255, sender.chance.randbytes(length))])
        assert sender.first_out - sender.first_in == 5, sender.first_out - sender.first_in
    assert not sender.asked and set(sender.events) - {"datagrams_sent"} <= {
        name for name, count in sender.events.items() if not count
    }


@cocotb.test()
async def too_large(dut):
    sender = Sender(dut, 2)
    await sender.ready()
    large = [reply(1, bytes(length)) for length in (MAXIMUM + 1, MAXIMUM + 8, 4000, 9000)]
    await sender.expect([reply(1, b"before"), *large, reply(2, b"behind"), *large, send(3, b"", [2])])
    assert sender.events["messages_too_large"] == 8 and sender.events["datagrams_sent"] == 3


@cocotb.test()
async def sets_of_peers(dut):
    sender = Sender(dut, 3)
    await sender.ready(nodes=range(15), known=range(14))
    chance = sender.chance
    await sender.expect([send(1, b"to all", range(14))])
    assert sender.asked == list(sender.known), "in ascending order, each once"
    for _ in range(30):
        nodes = chance.sample(range(14), chance.randint(1, 14))
        await sender.expect([send(2, chance.randbytes(chance.choice((0, 40, 100, 1000))), nodes)])
    assert len(sender.asked) == 14, "stations are remembered"
    # An empty set; a peer that is not configured; a peer that the neighbour table does not find.
    before = dict(sender.events)
    for nodes in ([15], [14], [14, 15], [0, 14], [0, 15], [14, 15, 3], [15, 3, 14, 13], []):
        await sender.expect([send(3, chance.randbytes(100), nodes, dropped=(14, 15)), reply(4, b"next")])
        dropped = {name: sender.events[name] - before.get(name, 0) for name in sender.events}
        assert dropped["messages_without_peer"] == (15 in nodes)
        assert dropped["messages_without_neighbour"] == (14 in nodes)
        before = dict(sender.events)


@cocotb.test()
async def stations_are_learned_and_forgotten(dut):
    sender = Sender(dut, 4)
    await sender.ready(known=[4])

    async def learn(node, station):
        dut.learn_valid_i.value = 1
        dut.learn_node_i.value = node
        dut.learn_mac_i.value = number(station)
        await FallingEdge(dut.clk_i)
        dut.learn_valid_i.value = 0

    await learn(7, STATIONS[7])
    await sender.expect([send(1, b"", [7])])
    assert not sender.asked
    # A peer's MAC address changes.
    await learn(7, STATIONS[9])
    moved = send(1, b"", [7])
    moved = (*moved[:2], [number_to(STATIONS[9]) + moved[2][0][6:]])
    await sender.expect([moved])
    # MAC addresses from the neighbour table and from received datagrams.
    await sender.expect([send(1, b"", [4]), send(1, b"", [4])])
    assert sender.asked == [number(PEERS[4])]
    for node in (4, 7):
        await sender.set_peer(node, PEERS[node])
    await sender.expect([send(1, b"", [4, 7], dropped=[7])])
    assert sender.asked == [number(PEERS[4]), number(PEERS[4]), number(PEERS[7])]
    # A peer that is configured with a new address has a new MAC address.
    await learn(7, STATIONS[7])
    await sender.set_peer(7, PEERS[4])
    expected = send(1, b"", [4])[2]
    await sender.expect([(send(1, b"", [7])[0], b"", expected)])
    assert sender.asked[3:] == [number(PEERS[4])]


def number_to(station):
    return bytes.fromhex(station.replace(":", ""))


@cocotb.test()
@cocotb.parametrize(rates=[(1.0, 1.0), (0.3, 1.0), (1.0, 0.6), (0.8, 0.8)])
async def random_traffic(dut, rates):
    message_rate, out_rate = rates
    sender = Sender(dut, 5)
    await sender.ready(out_rate, nodes=range(14), known=range(12))
    chance = sender.chance
    messages = []
    for _ in range(250):
        payload = chance.randbytes(chance.choice((0, 8, 63, 64, 65, chance.randint(0, 300), chance.randint(0, 1500))))
        if chance.random() < 0.5:
            messages.append(reply(chance.randrange(256), payload, port=chance.randrange(65536)))
        else:
            nodes = chance.sample(range(16), chance.randint(0, 4))
            messages.append(send(chance.randrange(256), payload, nodes, dropped=range(12, 16)))
    await sender.expect(messages, message_rate)


@cocotb.test()
async def throughput(dut):
    sender = Sender(dut, 6)
    await sender.ready()
    for length, lost in ((0, 0), (8, 0), (56, 0), (57, 0), (104, 0), (1448, 0)):
        messages = [reply(1, bytes(length)) for _ in range(40)]
        each = -(-len(messages[0][2][0]) // 64)
        begin = sender.clock
        await sender.give(messages)
        await sender.idle()
        # A margin for the first message, and for the cycles that `idle` waits.
        assert sender.clock - begin <= 40 * (each + lost) + 12, (length, sender.clock - begin)
        sender.frames.clear()
    # For several peers the body is transferred once.
    await sender.expect([send(1, b"", range(16))])
    begin = sender.clock
    await sender.expect([send(1, bytes(100), range(16)) for _ in range(10)])
    assert sender.clock - begin <= 160 * 3 + 12


SOURCES = [
    "weft_pkg.sv",
    "engines/engines_pkg.sv",
    "wire/crc_pkg.sv",
    "wire/crc_scale.sv",
    *(f"stream/{name}.sv" for name in ("ram", "fifo")),
    *(
        f"engines/{name}.sv"
        for name in (
            "datagram_crc", "peer_stations", "message_pack", "message_route", "message_transmit"
        )
    ),
]


def test_message_transmit():
    bench.run("message_transmit", SOURCES, __file__, {"Engine": ENGINE})
