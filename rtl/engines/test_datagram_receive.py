"""datagram_receive: its messages are those that zlib and scapy encoded, and no part of a bad datagram leaves."""

import collections
import random

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly

import bench
from datagrams import PEERS, PORT, STATIONS, datagram, frame, message, pack_peers
from streams import ADDRESS, HARDWARE, Bench, number, packets
from structs import unpack

CLIENT = "10.0.9.9"
CLIENT_STATION = "02:00:00:00:09:09"
NONE = collections.Counter()


class Receiver(Bench):
    async def ready(self, message_rate=1.0, payload_rate=1.0, nodes=range(16)):
        self.clock = 0
        await self.start(
            hardware_i=number(HARDWARE),
            address_i=number(ADDRESS),
            enable_i=1,
            rx_error_i=0,
            peers_i=pack_peers({node: PEERS[node] for node in nodes}),
        )
        self.messages = self.take("message", ["_o"], message_rate)
        self.payloads = self.take("payload", ["_o"], payload_rate)
        cocotb.start_soon(self._count())

    async def _count(self):
        self.first = None
        while True:
            await FallingEdge(self.dut.clk_i)
            self.clock += 1
            await ReadOnly()
            if int(self.dut.rx_valid_i.value) and int(self.dut.rx_last_i.value):
                self.last_fed = self.clock
            if int(self.dut.message_valid_o.value) and self.first is None:
                self.first = self.clock

    async def feed(self, frames, rate=1.0, error=False):
        dut = self.dut
        for data in frames:
            for at in range(0, len(data), 64):
                part = data[at : at + 64]
                while self.chance.random() >= rate:
                    await FallingEdge(dut.clk_i)
                dut.rx_valid_i.value = 1
                filled = part + self.chance.randbytes(64 - len(part))
                dut.rx_data_i.value = int.from_bytes(filled, "little")
                dut.rx_keep_i.value = (1 << len(part)) - 1
                dut.rx_last_i.value = int(at + 64 >= len(data))
                dut.rx_error_i.value = int(error and at + 64 >= len(data))
                await FallingEdge(dut.clk_i)
                dut.rx_valid_i.value = 0

    def out(self):
        """The messages and payloads received since the last call."""
        headers = [unpack("message_received_t", value) for (value,) in self.messages]
        beats = [value for (value,) in self.payloads]
        for beat in beats:  # the bytes behind the end are zero
            empty = beat >> 512 & 63
            assert (beat & (1 << 512) - 1) >> 8 * (64 - empty) == 0 or not empty
        whole = iter(packets(beats))
        result = [(header, next(whole) if header["bytes"] else b"") for header in headers]
        assert all(len(payload) == header["bytes"] for header, payload in result)
        assert next(whole, None) is None
        self.messages.clear()
        self.payloads.clear()
        return result

    def tallied(self):
        events = collections.Counter({name: count for name, count in self.events.items() if count})
        self.events.clear()
        return events

    async def refused(self, data, counted=(), error=False):
        """Sends a frame that must be dropped, with only these counters."""
        await self.feed([data], error=error)
        await self.idle()
        assert self.out() == []
        assert self.tallied() == collections.Counter(counted)


def good(payload=b"value", kind=7, **fields):
    return frame(datagram([message(kind, payload)]), **fields)


@cocotb.test()
async def one_message_of_every_length(dut):
    """Latency and contents of a datagram with one message, from a peer and from a client."""
    receiver = Receiver(dut, 1)
    await receiver.ready()
    for length in (*range(140), 511, 512, 513, 1024, 1100, 1448):
        payload = receiver.chance.randbytes(length)
        receiver.first = None
        await receiver.feed([good(payload, kind=length & 255)])
        await receiver.idle()
        ((header, got),) = receiver.out()
        assert got == payload and header["message"] == length & 255
        assert header["last"] and header["peer"] and header["from"] == 1 and header["engine"] == 0
        assert header["caller"]["mac"] == number(STATIONS[1])
        latency = receiver.first - receiver.last_fed
        assert latency == 4, latency
    assert receiver.tallied() == {"datagrams_received": 140 + 6}


@cocotb.test()
async def who_asks(dut):
    receiver = Receiver(dut, 2)
    await receiver.ready(nodes=[0, 3, 15])
    for node in range(16):
        await receiver.feed([good(source=PEERS[node], station=STATIONS[node])])
        await receiver.idle()
        ((header, _),) = receiver.out()
        assert header["peer"] == (node in (0, 3, 15))
        assert not header["peer"] or header["from"] == node
        assert header["caller"]["address"] == number(PEERS[node])
        assert header["caller"]["mac"] == number(STATIONS[node])
        assert header["caller"]["port"] == PORT
    for source, port in ((PEERS[3], 5000), (CLIENT, PORT), (CLIENT, 40_000)):
        await receiver.feed([good(source=source, station=CLIENT_STATION, source_port=port, checksum=None)])
        await receiver.idle()
        ((header, _),) = receiver.out()
        assert not header["peer"] and header["caller"]["kind"] == 0
        assert header["caller"]["address"] == number(source) and header["caller"]["port"] == port
        assert header["caller"]["mac"] == number(CLIENT_STATION)


@cocotb.test()
async def what_is_not_ours_is_ignored(dut):
    receiver = Receiver(dut, 3)
    await receiver.ready()
    refused = receiver.refused
    await refused(good(hardware="ff:ff:ff:ff:ff:ff"))
    await refused(good(hardware="02:00:00:00:00:03"))
    await refused(good(destination="10.0.0.9"))
    await refused(good(port=4791))
    await refused(good(port=4792))
    await refused(good(proto=6))
    await refused(good(flags="MF"))
    await refused(good(frag=3))
    await refused(good(flags=4))
    await refused(good(chksum=0x1234))
    await refused(bytes(Receiver.arp()))
    await refused(good(), error=True)
    options = bytearray(good())
    options[14] = 0x46
    await refused(bytes(options))
    vlan = good()
    await refused(vlan[:12] + b"\x81\x00\x00\x01" + vlan[12:])
    dut.enable_i.value = 0
    await refused(good())
    dut.enable_i.value = 1
    await receiver.feed([good(flags=0, tos=0xB8, ttl=1, ident=0xFFFF)])
    await receiver.idle()
    assert len(receiver.out()) == 1


def arp():
    from scapy.layers.l2 import ARP, Ether

    return Ether(src=STATIONS[1], dst=HARDWARE) / ARP(pdst=ADDRESS)


Receiver.arp = staticmethod(arp)


@cocotb.test()
async def what_is_malformed_is_counted(dut):
    receiver = Receiver(dut, 4)
    await receiver.ready()
    malformed = {"datagrams_malformed": 1}
    one = [message(1, bytes(40))]
    for payload in (
        datagram(one, magic=b"WE"),
        datagram(one, version=1),
        datagram(one, version=3),
        datagram(one, count=0),
        datagram(one, total=56),
        datagram(one, total=72),
        datagram(one, reserved=1),
        datagram(one, reserved=0x8000),
        datagram(one, zeros=1),
        datagram(one, zeros=0x8000_0000),
        datagram([b""], count=1),
        datagram(one) + bytes(8),
        datagram(one, behind=b"xxxx"),
        datagram(one)[:-8],
        datagram(one)[:8],
        b"WF",
    ):
        await receiver.refused(frame(payload), malformed)
    # Lengths that are inconsistent.
    data = good(bytes(100))
    for length in (0, 7, 8, 31, 32, 40, len(data) - 34 - 8, len(data) - 34 + 8, 0xFFF8):
        wrong = data[:38] + length.to_bytes(2, "big") + data[40:]
        await receiver.refused(wrong, malformed)
    payload = datagram([message(1, bytes(100))])
    for difference in (-8, -1, 1, 8):
        await receiver.refused(frame(payload, len=28 + len(payload) + difference), malformed)
    # Truncated, and followed by more than a beat.
    await receiver.refused(data[:-1], malformed)
    await receiver.refused(data[:128], malformed)
    await receiver.refused(data[:64], malformed)
    await receiver.refused(data + bytes(64), malformed)
    await receiver.refused(data + bytes(128), malformed)
    await receiver.feed([data + b"padding"])
    await receiver.idle()
    assert len(receiver.out()) == 1


@cocotb.test()
async def every_flipped_bit_is_refused(dut):
    """Except bits that neither IPv4 nor the CRC protects: the sender's MAC address and port, and UDP's checksum."""
    receiver = Receiver(dut, 5)
    await receiver.ready()
    # The CRC is in one beat, or split between two.
    for length in (30, 56 + 64):
        data = good(receiver.chance.randbytes(length))
        refused = 0
        for place in range(8 * len(data)):
            byte = place // 8
            wrong = bytearray(data)
            wrong[byte] ^= 1 << place % 8
            await receiver.feed([bytes(wrong)])
            # The sender's MAC address, its port, and UDP's checksum.
            harmless = 6 <= byte < 12 or byte in (34, 35, 40, 41)
            refused += not harmless
            if place % 64 == 63:
                await receiver.idle()
                assert len(receiver.out()) == (place - 63 < 0) + sum(
                    6 <= b < 12 or b in (34, 35, 40, 41) for b in range(byte - 7, byte + 1)
                ) * 8
        await receiver.idle()
        receiver.out()
        events = receiver.tallied()
        assert events["datagrams_received"] == 8 * 10 and refused == 8 * (len(data) - 10)


def walk(packed, bad_at=None):
    """The expected (kind, payload, last) for the messages [(engine, kind, payload)]."""
    out = []
    for index, (engine, kind, payload) in enumerate(packed):
        if engine:
            continue
        following = packed[index + 1] if index + 1 < len(packed) else None
        last = following is None or following[0] != 0 or index + 1 == bad_at
        out.append((kind, payload, int(last)))
    return out


def random_messages(chance, room, engines=(0, 0, 0, 0, 1)):
    messages, used = [], 0
    count = chance.choice((1, 1, 2, 3, 5, 10, 30))
    style = chance.choice(((0, 8), (0, 60), (0, 130), (0, 1100)))
    while len(messages) < count:
        payload = chance.randbytes(chance.randint(*style))
        used += 8 + len(payload) + 7
        if used > room:
            break
        messages.append((chance.choice(engines), chance.randrange(256), payload))
    return messages or [(0, 1, b"")]


@cocotb.test()
@cocotb.parametrize(rates=[(1.0, 1.0, 1.0), (0.7, 0.5, 0.9), (1.0, 0.9, 0.8)])
async def packed_datagrams(dut, rates):
    """1 to 30 messages of all lengths, mixed with bad frames and frames for others, under back-pressure."""
    rx, message_rate, payload_rate = rates
    receiver = Receiver(dut, 6)
    await receiver.ready(message_rate, payload_rate)
    for _ in range(2):
        chance = receiver.chance
        expected, frames, counts = [], [], collections.Counter()
        for _ in range(120):
            messages = random_messages(chance, 1400)
            packed = [message(kind, payload, engine) for engine, kind, payload in messages]
            client = chance.random() < 0.3
            source = (CLIENT, CLIENT_STATION) if client else (PEERS[5], STATIONS[5])
            data = frame(datagram(packed), *source)
            what = chance.random()
            if what < 0.15:
                place = chance.randrange(42, len(data))
                data = data[:place] + bytes([data[place] ^ 1 << chance.randrange(8)]) + data[place + 1 :]
                counts["datagrams_malformed"] += 1
            elif what < 0.25:
                data = chance.choice((good(port=4791), chance.randbytes(60), chance.randbytes(200)))
            else:
                expected += [(not client, *rest) for rest in walk(messages)]
                counts["datagrams_received"] += 1
                counts["messages_without_engine"] += sum(engine > 0 for engine, _, _ in messages)
            frames.append(data)
        await receiver.feed(frames, rx)
        await receiver.idle()
        got = [(bool(h["peer"]), h["message"], payload, h["last"]) for h, payload in receiver.out()]
        assert got == expected
        assert receiver.tallied() == counts


@cocotb.test()
async def structural_errors_end_a_datagram(dut):
    receiver = Receiver(dut, 9)
    await receiver.ready()
    first, second = message(1, b"first"), message(2, b"second" * 20)
    short = {"datagrams_received": 1, "messages_malformed": 1}
    for place in range(8):  # every alignment of the bad header
        shift = [message(9, bytes(8 * place))]
        before = [(9, bytes(8 * place)), (1, b"first")]
        for messages, options in (
            ([first, message(3, b"", length=0xFFFF)], {}),
            ([first, message(3, b"", length=1)], {}),
            ([first, message(3, b"12345678", length=9)], {}),
            ([first, message(3, b"x", reserved=1), second], {}),
            ([first, message(3, b"x", reserved=0x8000_0000), second], {}),
            ([first, message(3, b"x", reserved=0x0000_8000), second], {}),
            ([first], {"count": 3}),
            ([first], {"behind": bytes(8)}),
            ([first], {"behind": bytes(200)}),
        ):
            options = dict(options)
            if "count" not in options:
                options["count"] = len(messages) + 1
            await receiver.feed([frame(datagram(shift + messages, **options)), good(b"next")])
            await receiver.idle()
            got = [(h["message"], payload, h["last"]) for h, payload in receiver.out()]
            assert got == [(*before[0], 0), (*before[1], 1), (7, b"next", 1)], (place, messages, options)
            assert receiver.tallied() == short | {"datagrams_received": 2}


@cocotb.test()
async def back_to_back_at_the_rate_of_the_wire(dut):
    receiver = Receiver(dut, 10)
    await receiver.ready()
    for length, beats in ((0, 2), (40, 2), (56, 2), (57, 3), (64, 3), (120, 3), (1448, 24)):
        data = good(bytes(length))
        assert -(-len(data) // 64) == beats
        begin = receiver.clock
        await receiver.feed([data] * 50)
        spent = receiver.clock - begin
        await receiver.cycles(8 + beats)
        assert len(receiver.out()) == 50 and abs(spent - 50 * beats) <= 1, (length, spent)
    # Many messages: two cycles each.
    data = frame(datagram([message(index, bytes(8)) for index in range(30)]))
    begin = receiver.clock
    await receiver.feed([data] * 4)
    await receiver.idle()
    assert len(receiver.out()) == 120 and receiver.clock - begin < 2 * 120 + 30


@cocotb.test()
async def a_full_buffer_drops_whole_datagrams(dut):
    receiver = Receiver(dut, 11)
    await receiver.ready(message_rate=0.0)
    data = [good(index.to_bytes(2, "big") * 600) for index in range(80)]
    await receiver.feed(data)
    await receiver.cycles(10)
    receiver.rates["message"] = 1.0
    await receiver.idle()
    got = [int.from_bytes(payload[:2], "big") for _, payload in receiver.out()]
    events = receiver.tallied()
    assert got == list(range(len(got))) and 50 <= len(got) < 80
    assert events == {"datagrams_received": len(got), "drop_datagram_buffer_full": 80 - len(got)}


SOURCES = [
    "weft_pkg.sv",
    "engines/engines_pkg.sv",
    "wire/crc_pkg.sv",
    "wire/crc_scale.sv",
    *(f"stream/{name}.sv" for name in ("ram", "fifo", "ram_fifo", "packet_fifo")),
    *(
        f"engines/{name}.sv"
        for name in (
            "datagram_crc", "word_realign", "datagram_check", "datagram_split", "datagram_receive"
        )
    ),
]


def test_datagram_receive():
    # A small buffer, so that the test can fill it.
    bench.run("datagram_receive", SOURCES, __file__, parameters={"Beats": 1024})
