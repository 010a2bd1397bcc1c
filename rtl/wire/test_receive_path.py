"""receive_path: the output consists of exactly the good input frames, and each frame is counted once, by its outcome.

Frames come from three sources: scapy and a capture of two Linux machines, which are independent of this project, and
the
builders of frames.py, for frames that only a faulty sender makes.
"""

import logging
import pathlib
import random
import struct
from collections import deque

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly, RisingEdge

import bench
import frames
from frames import ADDRESS, HARDWARE, PEER, PEER_ADDRESS, ethernet, judge, roce
from structs import constant, unpack

logging.getLogger("scapy.runtime").setLevel(logging.ERROR)

CAPTURE = pathlib.Path(__file__).parents[2] / "crates/wire/tests/data/rxe.pcap"
LATENCY = 6
CLASSES = ("OtherArp", "OtherEcho", "OtherDatagram", "OtherHost")
OUTCOMES = (
    "frames_for_others", "frames_malformed", "icrc_errors", "roce_malformed", "roce_received", "drop_receive_error",
    "drop_receive_buffer_full", "drop_other_buffer_full",
)  # fmt: skip
ROCE_BEATS, ROCE_PACKETS, OTHER_BEATS = 1024, 512, 512


def beats(frame):
    return [frame[at : at + 64] for at in range(0, len(frame), 64)]


class Port:
    """Drives frames in (one beat a cycle if `gap` is 0), accepts all output, and checks it against the model.

    The counter events give the outcome of each frame, in order. A good frame may be lost where a test allows it.
    """

    def __init__(self, dut, seed=1):
        self.dut = dut
        self.chance = random.Random(seed)
        self.gap = 0.0
        self.ready = {"header": 1.0, "frame": 1.0, "other": 1.0}
        self.may_lose = False
        self.hardware, self.address = HARDWARE, ADDRESS
        self.input = deque()  # (beat, last, error, frame)
        self.judged = deque()  # expected outcomes
        self.headers, self.frames, self.others = deque(), deque(), deque()
        self.partial = {"frame": b"", "other": b""}
        self.counts = dict.fromkeys((*OUTCOMES, "frames_received"), 0)
        self.cycle = 0
        self.last_beats = []  # cycles in which frames ended
        self.log = {"header": [], "frame": [], "other": []}  # cycles of output beats
        self.stamps = deque()
        self.held = {}

    async def start(self):
        dut = self.dut
        cocotb.start_soon(Clock(dut.clk_i, 4, unit="ns").start())
        dut.rst_ni.value = 0
        for name in ("rx_valid_i", "rx_data_i", "rx_keep_i", "rx_last_i", "rx_error_i", "now_i", "header_ready_i",
                     "frame_ready_i", "other_ready_i"):  # fmt: skip
            getattr(dut, name).value = 0
        self.addresses(HARDWARE, ADDRESS)
        for _ in range(2):
            await FallingEdge(dut.clk_i)
        dut.rst_ni.value = 1

    def addresses(self, hardware, address):
        self.hardware, self.address = hardware, address
        self.dut.hardware_i.value = int.from_bytes(hardware, "big")
        self.dut.address_i.value = int.from_bytes(address, "big")

    def send(self, frame, error=False):
        parts = beats(frame)
        for place, part in enumerate(parts):
            last = place == len(parts) - 1
            self.input.append((part, place == 0, last, error and last))
        outcome, told = judge(frame, error, self.hardware, self.address)
        self.judged.append((outcome, told, frame))
        return outcome

    async def step(self):
        dut = self.dut
        await FallingEdge(dut.clk_i)
        self.cycle += 1
        dut.now_i.value = 1_000_000 + self.cycle
        put = bool(self.input) and self.chance.random() >= self.gap
        dut.rx_valid_i.value = int(put)
        if put:
            part, first, last, error = self.input.popleft()
            # Bytes behind the last one are random.
            behind = self.chance.randbytes(64 - len(part))
            dut.rx_data_i.value = int.from_bytes(part + behind, "little")
            dut.rx_keep_i.value = (1 << len(part)) - 1
            dut.rx_last_i.value = int(last)
            dut.rx_error_i.value = int(error)
            if first:
                self.stamps.append(1_000_000 + self.cycle)
            if last:
                self.last_beats.append(self.cycle)
        ready = {}
        for name, likely in self.ready.items():
            ready[name] = self.chance.random() < likely
            getattr(dut, f"{name}_ready_i").value = int(ready[name])
        await ReadOnly()
        self.note_events()
        for name in self.ready:
            valid = int(getattr(dut, f"{name}_valid_o").value)
            value = int(getattr(dut, f"{name}_o").value) if valid else None
            if name in self.held:
                assert value == self.held.pop(name), f"{name} changed before it was taken"
            if valid and not ready[name]:
                self.held[name] = value
            if valid and ready[name]:
                self.log[name].append(self.cycle)
                getattr(self, f"take_{name}")(value)

    def note_events(self):
        value = int(self.dut.events_o.value)
        if not value:
            return
        events = unpack("receive_path_events_t", value)
        assert events.pop("frames_received") == 1
        self.counts["frames_received"] += 1
        name = next((name for name, happened in events.items() if happened), None)
        assert sum(events.values()) <= 1
        if name:
            self.counts[name] += 1
        outcome, told, frame = self.judged.popleft()
        stamp = self.stamps.popleft()
        # This block has no counter for a good frame that is not RoCE; its consumer counts it.
        expected = None if outcome in CLASSES else outcome
        lost = "drop_other_buffer_full" if outcome in CLASSES else "drop_receive_buffer_full"
        if self.may_lose and told is not None and name == lost:
            return
        assert name == expected, f"{outcome} expected, {name} counted, for {frame.hex()}"
        if outcome in CLASSES:
            self.others.append((told | {"kind": constant(outcome), "timestamp": stamp}, frame))
        elif told is not None:
            self.headers.append(told)
            self.frames.append(frame)

    def take_header(self, value):
        header = unpack("roce_header_t", value)
        expected = self.headers.popleft()
        assert {name: header[name] for name in expected} == expected

    def take_frame(self, value):
        self.take_beat("frame", value, self.frames)

    def take_other(self, value):
        told, _ = self.others[0]
        info = unpack("other_frame_t", int(self.dut.other_info_o.value))
        assert {name: info[name] for name in told} == told
        self.take_beat("other", value, self.others)

    def take_beat(self, name, value, waiting):
        beat = unpack("beat_t", value)
        data = beat["data"].to_bytes(64, "little")
        self.partial[name] += data[: 64 - beat["empty"]] if beat["last"] else data
        if beat["last"]:
            expected = waiting.popleft()
            expected = expected[1] if name == "other" else expected
            assert self.partial[name] == expected
            self.partial[name] = b""

    @property
    def idle(self):
        return not (self.input or self.judged or self.headers or self.frames or self.others)

    async def drain(self, cycles=20_000):
        for _ in range(cycles):
            if self.idle:
                break
            await self.step()
        assert self.idle, "something has not come out"
        for _ in range(4):
            await self.step()
        assert int(self.dut.idle_o.value) == 1
        assert not any(int(getattr(self.dut, f"{name}_valid_o").value) for name in self.ready)


def any_roce(chance, opcode=None, size=None, **fields):
    """A good RoCE packet."""
    opcode = chance.choice(list(frames.OPCODES)) if opcode is None else opcode
    size = chance.choice((0, 1, 2, 3, 7, 8, 33, 60, 64, 65, 100, 128, 256, 1024)) if size is None else size
    payload = chance.randbytes(size) if frames.OPCODES[opcode][1] else b""
    values = {"psn": chance.getrandbits(24), "qp": chance.getrandbits(24), "key": chance.getrandbits(16),
              "solicited": chance.getrandbits(1), "acknowledge": chance.getrandbits(1),
              "congestion": chance.getrandbits(2)}  # fmt: skip
    return roce(opcode, frames.extended_of(opcode, chance)[0], payload, **(values | fields))


def good_others(chance):
    """Frames that are not RoCE, one of each kind."""
    payload = chance.randbytes(chance.choice((0, 1, 2, 17, 18, 100, 700)))
    elsewhere = bytes((10, 0, 0, 9))
    tcp = chance.randbytes(40)
    return [
        ethernet(frames.arp(), 0x0806, to=b"\xff" * 6),
        ethernet(frames.arp(operation=2), 0x0806),
        ethernet(frames.arp(target=elsewhere), 0x0806),
        ethernet(frames.arp(operation=3), 0x0806),
        ethernet(frames.arp(hardware_type=6), 0x0806),
        ethernet(frames.icmp(8, payload=payload)),
        ethernet(frames.icmp(0, payload=payload)),
        ethernet(frames.icmp(8, payload=payload, to=elsewhere)),
        ethernet(frames.icmp(3, code=1, payload=payload)),
        ethernet(frames.udp(payload, 4793)),
        ethernet(frames.udp(payload, 53, checksum=0)),
        ethernet(frames.udp(payload, 4791, to=elsewhere), to=b"\x01" + HARDWARE[1:]),
        ethernet(frames.udp(payload + b"rest", 9, length=8 + len(payload))),
        ethernet(frames.ipv4(tcp, 6)),
        ethernet(frames.ipv4(tcp, 17, flags=0x2000)),
        ethernet(frames.ipv4(tcp, 17, flags=0x0001)),
        ethernet(frames.ipv4(tcp, 17, options=bytes(4))),
        ethernet(frames.ipv4(payload, 1, options=chance.randbytes(40))),
        ethernet(frames.ipv4(tcp, 6) + bytes(70)),
        ethernet(chance.randbytes(46), 0x86DD),
        ethernet(b"\x00\x05\x08\x00" + frames.udp(payload, 4791), 0x8100),
        HARDWARE + PEER + b"\x88\xcc",
        ethernet(frames.udp(chance.randbytes(9216 - 42), 1)),
    ]


def bad_frames(chance):
    """(description, frame, MAC error, counter): every reason to drop a frame."""
    data = chance.randbytes(100)
    good = any_roce(chance, 0x0A, 64)
    write = frames.extended_of(0x0A, chance)[0]
    tcp = frames.ipv4(data, 6)
    return [
        ("MAC error", good, True, "drop_receive_error"),
        ("MAC error, other", ethernet(tcp), True, "drop_receive_error"),
        ("one byte", b"\x02", False, "frames_malformed"),
        ("no EtherType", good[:13], False, "frames_malformed"),
        ("another station", roce(0x0A, write, data, to_mac=PEER), False, "frames_for_others"),
        ("another station, other", ethernet(tcp, to=PEER), False, "frames_for_others"),
        ("another station and cut", (PEER + good[6:])[:20], False, "frames_for_others"),
        ("ARP cut", ethernet(frames.arp(), 0x0806, pad=False)[:-1], False, "frames_malformed"),
        ("IPv4 header cut", good[:33], False, "frames_malformed"),
        ("IPv4 version", ethernet(frames.ipv4(data, 6, version=6)), False, "frames_malformed"),
        ("IPv4 header of four words", ethernet(frames.ipv4(data, 6, words=4)), False, "frames_malformed"),
        ("IPv4 checksum", ethernet(frames.ipv4(data, 6, break_sum=True)), False, "frames_malformed"),
        ("IPv4 checksum of RoCE", good[:24] + bytes((good[24] ^ 1,)) + good[25:], False, "frames_malformed"),
        ("IPv4 checksum with options", ethernet(frames.ipv4(data, 6, options=data[:40], break_sum=True)), False,
         "frames_malformed"),
        ("IPv4 options cut", ethernet(frames.ipv4(b"", 6, options=data[:40]), pad=False)[:-1], False, "frames_malformed"),
        ("IPv4 total below header", ethernet(frames.ipv4(data, 6, total_bytes=19)), False, "frames_malformed"),
        ("IPv4 total below header with options", ethernet(frames.ipv4(data, 6, options=data[:8], total_bytes=27)), False,
         "frames_malformed"),
        ("IPv4 cut", ethernet(tcp, pad=False)[:-1], False, "frames_malformed"),
        ("IPv4 reserved flag", ethernet(frames.ipv4(data, 6, flags=0x8000)), False, "frames_malformed"),
        ("fragment cut", ethernet(frames.ipv4(data, 6, flags=0x2000))[:-1], False, "frames_malformed"),
        ("ICMP below eight bytes", ethernet(frames.ipv4(data[:7], 1)), False, "frames_malformed"),
        ("ICMP checksum", ethernet(frames.icmp(8, payload=data, break_sum=True)), False, "frames_malformed"),
        ("ICMP checksum of another kind", ethernet(frames.icmp(3, payload=data, break_sum=True)), False,
         "frames_malformed"),
        ("echo code", ethernet(frames.icmp(8, code=1, payload=data)), False, "frames_malformed"),
        ("echo reply code", ethernet(frames.icmp(0, code=1, payload=data)), False, "frames_malformed"),
        ("UDP below eight bytes", ethernet(frames.ipv4(data[:7], 17)), False, "frames_malformed"),
        ("UDP length below eight", ethernet(frames.udp(data, 53, length=7, checksum=0)), False, "frames_malformed"),
        ("UDP length beyond", ethernet(frames.udp(data, 53, length=109, checksum=0)), False, "frames_malformed"),
        ("UDP checksum", ethernet(frames.udp(data, 53, checksum=1)), False, "frames_malformed"),
        ("UDP checksum of RoCE", roce(0x0A, write, data, checksum=1), False, "frames_malformed"),
        ("RoCE UDP length beyond", roce(0x0A, write, data, length=200), False, "frames_malformed"),
        ("RoCE cut", good[:-1], False, "frames_malformed"),
        ("RoCE cut to a beat", good[:64], False, "frames_malformed"),
        ("too long", ethernet(frames.udp(chance.randbytes(9217 - 42), 1)), False, "frames_malformed"),
        ("far too long", good + bytes(12_000), False, "frames_malformed"),
        ("far too long, other", ethernet(tcp) + bytes(12_000), False, "frames_malformed"),
        ("ICRC", roce(0x0A, write, data, break_icrc=1), False, "icrc_errors"),
        ("ICRC, highest bit", roce(0x0A, write, data, break_icrc=1 << 31), False, "icrc_errors"),
        ("ICRC of a short one", roce(0x04, break_icrc=0x100), False, "icrc_errors"),
        ("payload bit", good[:90] + bytes((good[90] ^ 4,)) + good[91:], False, "icrc_errors"),
        ("no room for an ICRC", ethernet(frames.udp(frames.bth(4)[:11], 4791, checksum=0)), False, "icrc_errors"),
        ("no UDP payload", ethernet(frames.udp(b"", 4791, checksum=0)), False, "icrc_errors"),
        ("bytes behind the datagram", roce(0x0A, write, data, trailing=b"four"), False, "icrc_errors"),
        ("datagram service", roce(0x64, data[:8], data), False, "roce_malformed"),
        ("congestion notification, short", roce(0x81, bytes(12)), False, "roce_malformed"),
        ("congestion notification, long", roce(0x81, bytes(20)), False, "roce_malformed"),
        ("first opcode that is none", roce(0x15, b"", data), False, "roce_malformed"),
        ("header version", roce(0x0A, write, data, version=1), False, "roce_malformed"),
        ("syndrome, reserved kind", roce(0x11, b"\x40\0\0\0"), False, "roce_malformed"),
        ("syndrome, reserved bit", roce(0x11, b"\x80\0\0\0"), False, "roce_malformed"),
        ("syndrome, reserved reason", roce(0x11, b"\x65\0\0\0"), False, "roce_malformed"),
        ("RETH cut", roce(0x0A, write[:12]), False, "roce_malformed"),
        ("AtomicETH cut", roce(0x13, data[:24]), False, "roce_malformed"),
        ("AETH missing", roce(0x11), False, "roce_malformed"),
        ("immediate missing", roce(0x0B, write), False, "roce_malformed"),
        ("pad beyond payload", roce(0x04, b"", b"", pad=2, length=24), False, None),
        ("pad of an empty packet", frames_with_pad(3), False, "roce_malformed"),
        ("payload of a READ request", roce(0x0C, write, b"four"), False, "roce_malformed"),
        ("payload of an acknowledgement", roce(0x11, b"\x1f\0\0\1", b"four"), False, "roce_malformed"),
        ("payload of an atomic", roce(0x14, data[:28], b"four"), False, "roce_malformed"),
        ("more payload than a header can say", roce(0x07, b"", chance.randbytes(8192)), False, "roce_malformed"),
    ]  # fmt: skip


def frames_with_pad(pad):
    """A packet whose BTH specifies pad bytes that are missing."""
    whole = frames.udp(frames.bth(4, pad=pad) + bytes(4), 4791, checksum=0)
    return ethernet(whole[:-4] + frames.icrc(whole[:-4]))


@cocotb.test()
async def every_reason_to_drop_a_frame(dut):
    port = Port(dut)
    await port.start()
    for what, frame, error, counter in bad_frames(port.chance):
        before = dict(port.counts)
        outcome = port.send(frame, error)
        if counter:
            assert outcome == counter, what
            # The next good frames are received.
            port.send(any_roce(port.chance))
            port.send(ethernet(frames.udp(b"next", 4793)))
            await port.drain()
            changed = {name for name, count in port.counts.items() if count != before[name]}
            assert changed == {"frames_received", "roce_received", counter}, what
        else:
            await port.drain()


@cocotb.test()
async def every_kind_of_other_frame(dut):
    port = Port(dut)
    await port.start()
    for frame in good_others(port.chance):
        assert port.send(frame) in CLASSES
    assert {outcome for outcome, _, _ in port.judged} == set(CLASSES)
    await port.drain()
    # With the buffers otherwise empty, whole frames leave without gaps.
    assert port.counts["frames_received"] == len(good_others(port.chance))


@cocotb.test()
async def headers_of_every_opcode_in_six_cycles(dut):
    port = Port(dut)
    await port.start()
    for opcode in frames.OPCODES:
        for size in (0, 1, 64, 200, 4096):
            if size and not frames.OPCODES[opcode][1]:
                continue
            extended, fields = frames.extended_of(opcode, port.chance)
            port.send(roce(opcode, extended, port.chance.randbytes(size), psn=0xABCDEF, qp=0x123456, congestion=2,
                           solicited=1, ip={"tos": 0x02}))  # fmt: skip
            outcome, header, frame = port.judged[-1]
            assert outcome == "roce_received"
            # The model's parsed fields equal the ones that were encoded.
            expected = fields | {"opcode": opcode, "psn": 0xABCDEF, "destination_qp": 0x123456, "payload_bytes": size,
                                 "payload_offset": 54 + len(extended), "marked": 0, "solicited": 1}  # fmt: skip
            assert header == header | expected
            await port.drain()
            assert port.log["header"][-1] == port.last_beats[-1] + LATENCY
            assert port.log["frame"][-len(beats(frame))] == port.last_beats[-1] + LATENCY
    port.send(roce(4, b"", b"marked by a switch", ip={"tos": 0x03}))
    assert port.judged[-1][1]["marked"] == 1
    await port.drain()


@cocotb.test()
async def padding_and_checksums_that_need_not_be_there(dut):
    port = Port(dut)
    await port.start()
    for beyond in (0, 1, 2, 5, 64, 70, 200):
        for size in (0, 4, 9, 60):
            assert port.send(roce(0x04, b"", port.chance.randbytes(size), beyond=beyond)) == "roce_received"
            assert port.send(roce(0x04, b"", port.chance.randbytes(size), beyond=beyond, checksum=True)) == "roce_received"
    await port.drain()


@cocotb.test()
async def frames_of_scapy(dut):
    from scapy.contrib.roce import AETH, BTH
    from scapy.layers.inet import IP, UDP
    from scapy.layers.l2 import Ether
    from scapy.packet import Raw

    port = Port(dut)
    await port.start()
    lower = Ether(dst="02:00:00:00:00:01", src="02:00:00:00:00:fe") / IP(src="10.0.0.2", dst="10.0.0.1", flags="DF")
    lower /= UDP(sport=0xC123, dport=4791)
    for size in range(0, 140, 4):
        data = port.chance.randbytes(size)
        for packet in (
            BTH(opcode=0x04, dqpn=0x11, psn=size) / Raw(data),
            BTH(opcode=0x0A, dqpn=0x12, psn=size, ackreq=1) / Raw(bytes(8) + b"RKEY" + struct.pack(">I", size) + data),
            BTH(opcode=0x11, dqpn=0x13, psn=size) / AETH(syndrome=0x1F, msn=size),
        ):
            frame = bytes(lower / packet)
            assert port.send(frame) == "roce_received", frame.hex()
            assert port.judged[-1][1]["psn"] == size
    await port.drain()
    assert port.counts["roce_received"] == 105


@cocotb.test()
async def frames_of_two_linux_machines(dut):
    from scapy.utils import RawPcapReader

    port = Port(dut)
    await port.start()
    captured = [frame for frame, _ in RawPcapReader(str(CAPTURE))]
    stations = {}
    for frame in captured:
        if frame[12:14] == b"\x08\x00":
            stations[frame[:6]] = frame[30:34]
    assert len(stations) == 2
    for hardware, address in stations.items():
        await FallingEdge(dut.clk_i)
        port.addresses(hardware, address)
        for frame in captured:
            port.send(frame)
        await port.drain()
    # Packets of the connection manager and of unreliable datagrams are not of the reliable connection.
    assert port.counts["icrc_errors"] == 0
    assert port.counts["roce_received"] + port.counts["roce_malformed"] == 134
    assert port.counts["roce_received"] > 60
    assert port.counts["frames_malformed"] == 0


@cocotb.test()
async def smallest_frames_at_a_beat_a_cycle(dut):
    port = Port(dut)
    await port.start()
    for _ in range(700):
        assert len(frame := roce(0x04, psn=port.chance.getrandbits(24))) == 60
        port.send(frame)
    await port.drain()
    assert port.counts["roce_received"] == 700
    for name in ("header", "frame"):
        assert port.log[name] == list(range(port.log[name][0], port.log[name][0] + 700))
    for place in range(700):
        port.send((any_roce(port.chance, 0x04, 0), ethernet(frames.udp(b"small", 7)))[place % 2])
    await port.drain()
    assert port.counts["roce_received"] == 1050


@cocotb.test()
async def three_beats_every_three_cycles(dut):
    port = Port(dut)
    await port.start()
    for _ in range(400):
        assert len(beats(frame := any_roce(port.chance, 0x0A, 64))) == 3
        port.send(frame)
    await port.drain()
    first = port.log["frame"][0]
    assert port.log["frame"] == list(range(first, first + 1200))
    assert port.log["header"] == list(range(first, first + 1200, 3))


@cocotb.test()
async def a_full_buffer_loses_whole_frames_and_recovers(dut):
    port = Port(dut)
    await port.start()
    port.may_lose = True
    for stalled, make, holds, counter in (
        ({"header": 0.0, "frame": 0.0}, lambda: any_roce(port.chance, 0x0A, 64), ROCE_BEATS // 3,
         "drop_receive_buffer_full"),
        ({"header": 0.0, "frame": 1.0}, lambda: roce(0x04, psn=1), ROCE_PACKETS - 1, "drop_receive_buffer_full"),
        ({"header": 1.0, "frame": 0.0}, lambda: roce(0x07, b"", port.chance.randbytes(500)), ROCE_BEATS // 9,
         "drop_receive_buffer_full"),
        ({"other": 0.0}, lambda: ethernet(frames.udp(port.chance.randbytes(200), 7)), OTHER_BEATS // 4,
         "drop_other_buffer_full"),
        ({"other": 0.0}, lambda: ethernet(frames.udp(b"", 7)), OTHER_BEATS - 1, "drop_other_buffer_full"),
    ):  # fmt: skip
        before = port.counts[counter]
        port.ready |= stalled
        for _ in range(holds + 20):
            port.send(make())
        # A small frame finds room where a larger one did not; bad frames need none.
        port.send(roce(0x04, break_icrc=1))
        port.send(ethernet(b"", to=PEER))
        while port.judged:
            await port.step()
        lost = port.counts[counter] - before
        assert 18 <= lost <= 22, (stalled, lost)
        port.ready |= dict.fromkeys(stalled, 1.0)
        await port.drain()
    port.may_lose = False
    for _ in range(20):
        port.send(any_roce(port.chance))
        port.send(ethernet(frames.udp(b"after", 7)))
    await port.drain()


@cocotb.test()
async def random_traffic(dut):
    port = Port(dut, seed=7)
    await port.start()
    chance = port.chance
    outcomes = set()
    for phase in range(12):
        port.gap = chance.choice((0.0, 0.0, 0.3, 0.6))
        port.ready = {name: chance.choice((1.0, 0.7, 0.2)) for name in port.ready}
        port.may_lose = True
        bad = [entry[1:3] for entry in bad_frames(chance) if len(entry[1]) < 9000]
        others = [frame for frame in good_others(chance) if len(frame) < 9000]
        for _ in range(150):
            kind = chance.random()
            error = False
            if kind < 0.5:
                frame = any_roce(chance, checksum=chance.choice((0, 0, True)), beyond=chance.choice((0, 0, 0, 1, 70)))
            elif kind < 0.65:
                frame = chance.choice(others)
            elif kind < 0.8:
                frame, error = chance.choice(bad)
            else:
                # A frame with flipped bits, truncated, or with extra bytes.
                frame = bytearray(chance.choice((any_roce(chance), chance.choice(others))))
                for _ in range(chance.choice((0, 1, 1, 2))):
                    frame[min(chance.choice((chance.randrange(len(frame)), chance.randrange(64))), len(frame) - 1)] ^= (
                        1 << chance.randrange(8)
                    )
                frame = bytes(frame[: chance.choice((len(frame), len(frame), chance.randrange(1, len(frame) + 1)))])
                frame += bytes(chance.choice((0, 0, 1, 64)))
                error = chance.random() < 0.1
            outcomes.add(port.send(frame, error))
        await port.drain()
    assert outcomes >= {*CLASSES, *OUTCOMES[:6]}
    logging.getLogger("cocotb").info("%s in %d cycles", port.counts, port.cycle)


def test_receive_path():
    bench.run(
        "receive_path",
        ["weft_pkg.sv", "stream/ram.sv", "stream/ram_fifo.sv", "stream/packet_fifo.sv", "wire/crc_pkg.sv", "wire/crc_scale.sv", "wire/icrc.sv",
         "wire/internet_checksum.sv", "wire/frame_classifier.sv", "wire/roce_fields.sv", "wire/receive_path.sv"],
        __file__,
    )  # fmt: skip
