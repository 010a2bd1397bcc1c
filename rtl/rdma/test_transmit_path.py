"""transmit_path: frames byte for byte as scapy builds them, at full rate, without gaps inside."""

import collections
import random
import struct

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly
from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

import bench
from structs import constant, pack, unpack

HARDWARE = bytes.fromhex("02005e102030")
ADDRESS = bytes([10, 1, 2, 3])
RETH = ("WriteFirst", "WriteOnly", "WriteOnlyImmediate", "ReadRequest")
ATOMIC = ("CompareSwap", "FetchAdd")
AETH = ("ReadResponseFirst", "ReadResponseLast", "ReadResponseOnly", "Acknowledge", "AtomicAcknowledge")
IMMEDIATE = ("SendLastImmediate", "SendOnlyImmediate", "WriteLastImmediate", "WriteOnlyImmediate")
SENDS = ("SendFirst", "SendMiddle", "SendLast", "SendLastImmediate", "SendOnly", "SendOnlyImmediate")
WRITES = ("WriteFirst", "WriteMiddle", "WriteLast", "WriteLastImmediate", "WriteOnly", "WriteOnlyImmediate")
READ_RESPONSES = ("ReadResponseFirst", "ReadResponseMiddle", "ReadResponseLast", "ReadResponseOnly")
PAYLOAD = SENDS + WRITES + READ_RESPONSES
OPCODES = (*PAYLOAD, "ReadRequest", "Acknowledge", "AtomicAcknowledge", *ATOMIC, "CongestionNotification")
RATE_CONTROL = True
REQUESTS = (*SENDS, *WRITES, "ReadRequest", *ATOMIC)


class Table:
    """Random queue pairs, created on first use."""

    def __init__(self, chance):
        self.chance = chance
        self.entries = {}

    def __getitem__(self, index):
        if index not in self.entries:
            self.entries[index] = dict(
                number=1 << 16 | index,
                destination_qp=self.chance.getrandbits(24),
                destination=self.chance.choice((0, 0xFFFF_FFFF, self.chance.getrandbits(32))),
                destination_mac=self.chance.getrandbits(48),
                source_port=self.chance.getrandbits(16),
                domain=self.chance.getrandbits(16),
            )
        return self.entries[index]


class Packet:
    """A packet to send, its payload, and the expected frame."""

    def __init__(self, chance, table, name, count=0, qp=None):
        self.name = name
        qp = chance.randrange(512) if qp is None else qp
        self.fields = dict(
            qp=qp,
            opcode=constant(name),
            psn=chance.getrandbits(24),
            acknowledge_request=chance.randrange(2),
            solicited=chance.randrange(2),
            remote_address=chance.getrandbits(64),
            rkey=chance.getrandbits(32),
            length=chance.getrandbits(32),
            swap_or_add=chance.getrandbits(64),
            compare=chance.getrandbits(64),
            immediate=chance.getrandbits(32),
            syndrome=chance.getrandbits(8),
            msn=chance.getrandbits(24),
            bytes=count,
            source=dict(retransmission=chance.randrange(2), target=chance.randrange(4)),
            source_address=chance.getrandbits(48),
            keep=chance.randrange(2),
            keep_address=chance.getrandbits(48),
        )
        self.transmit = pack("transmit_t", **self.fields)
        self.payload = chance.randbytes(count)
        start = self.fields["source_address"] % 64
        raw = chance.randbytes(start) + self.payload + chance.randbytes(-(start + count) % 64)
        self.beats = [int.from_bytes(raw[at : at + 64], "little") for at in range(0, len(raw), 64)] if count else []
        self.frame = self.build(table[qp])

    def build(self, entry):
        field = self.fields
        extension = b""
        if self.name in RETH:
            extension += struct.pack(">QII", field["remote_address"], field["rkey"], field["length"])
        if self.name in ATOMIC:
            extension += struct.pack(
                ">QIQQ", field["remote_address"], field["rkey"], field["swap_or_add"], field["compare"]
            )
        if self.name in AETH:
            extension += struct.pack(">I", field["syndrome"] << 24 | field["msn"])
        if self.name == "AtomicAcknowledge":
            extension += struct.pack(">Q", field["swap_or_add"])
        if self.name in IMMEDIATE:
            extension += struct.pack(">I", field["immediate"])
        notifies = self.name == "CongestionNotification"
        if notifies:
            extension += bytes(16)
        pad = -len(self.payload) % 4
        packet = (
            Ether(dst=entry["destination_mac"].to_bytes(6), src=HARDWARE)
            / IP(
                src=".".join(map(str, ADDRESS)),
                dst=".".join(map(str, entry["destination"].to_bytes(4))),
                id=0,
                flags="DF",
                ttl=64,
                tos=0xC0 if notifies else 2 if RATE_CONTROL and self.name in REQUESTS else 0,
            )
            / UDP(sport=entry["source_port"], dport=4_791, chksum=0)
            / BTH(
                opcode=field["opcode"],
                solicited=field["solicited"],
                migreq=int(not notifies),
                padcount=pad,
                version=0,
                pkey=0xFFFF,
                becn=int(notifies),
                dqpn=entry["destination_qp"],
                ackreq=field["acknowledge_request"],
                psn=field["psn"],
            )
            / Raw(extension + self.payload + bytes(pad))
        )
        return bytes(packet).ljust(60, b"\0")


class Harness:
    """Drives all ports, cycle by cycle, and collects frames."""

    def __init__(self, dut, chance, table):
        self.dut, self.chance, self.table = dut, chance, table
        self.cycle = 0
        self.queues = {"request": collections.deque(), "response": collections.deque()}
        self.offered = {"request": False, "response": False}
        self.taken = []  # (cycle, packet)
        self.reads = collections.deque()  # data that memory must return, as [first cycle, beats]
        self.awaited = collections.deque()
        self.frames = []  # (first cycle, last cycle, packet)
        self.current = None
        self.held = None
        self.held_read = None
        self.data_offered = False
        self.table_data = 0
        self.sent = 0
        self.memory_latency = 3
        self.offer_rate = self.read_rate = self.data_rate = self.frame_rate = 1.0
        self.paused = lambda: False

    async def start(self):
        dut = self.dut
        cocotb.start_soon(Clock(dut.clk_i, 4, unit="ns").start())
        dut.rst_ni.value = 0
        for port in (dut.request_valid_i, dut.response_valid_i, dut.read_ready_i, dut.data_valid_i, dut.frame_ready_i):
            port.value = 0
        dut.rate_control_i.value = int(RATE_CONTROL)
        dut.hardware_i.value = int.from_bytes(HARDWARE)
        dut.address_i.value = int.from_bytes(ADDRESS)
        for _ in range(3):
            await FallingEdge(dut.clk_i)
        dut.rst_ni.value = 1

    async def step(self):
        dut, chance = self.dut, self.chance
        await FallingEdge(dut.clk_i)
        dut.table_data_i.value = self.table_data
        for name, queue in self.queues.items():
            self.offered[name] = bool(queue) and (self.offered[name] or chance.random() < self.offer_rate)
            getattr(dut, f"{name}_valid_i").value = int(self.offered[name])
            if self.offered[name]:
                getattr(dut, f"{name}_i").value = queue[0].transmit
        dut.read_ready_i.value = int(chance.random() < self.read_rate)
        due = bool(self.reads) and self.reads[0][0] <= self.cycle
        self.data_offered = due and (self.data_offered or chance.random() < self.data_rate)
        dut.data_valid_i.value = int(self.data_offered)
        if self.data_offered:
            beats = self.reads[0][1]
            dut.data_i.value = pack("beat_t", data=beats[0], last=len(beats) == 1)
        dut.frame_ready_i.value = int(chance.random() < self.frame_rate and not self.paused())
        await ReadOnly()
        self.observe()
        self.cycle += 1

    def observe(self):
        dut = self.dut
        # Accepted packets, and the memory reads made for them in the same cycle.
        takers = [
            name for name in self.queues if self.offered[name] and int(getattr(dut, f"{name}_ready_o").value)
        ]
        assert len(takers) <= 1
        read = None
        if int(dut.read_valid_o.value):
            read = int(dut.read_o.value)
            assert self.held_read in (None, read), "a read was changed"
            self.held_read = read if not int(dut.read_ready_i.value) else None
            if self.held_read is not None:
                read = None
        else:
            assert self.held_read is None, "a read was withdrawn"
        if int(dut.data_valid_i.value) and int(dut.data_ready_o.value):
            self.reads[0][1].pop(0)
            self.data_offered = False
            if not self.reads[0][1]:
                self.reads.popleft()
        for name in takers:
            packet = self.queues[name].popleft()
            self.offered[name] = False
            self.taken.append((self.cycle, name, packet))
            self.awaited.append((self.cycle, packet))
            if packet.beats:
                fields = unpack("read_command_t", read)
                for field in ("source", "keep", "keep_address"):
                    assert fields[field] == packet.fields[field]
                assert fields["transfer"] == dict(
                    address=packet.fields["source_address"], bytes=packet.fields["bytes"]
                )
                self.reads.append([self.cycle + self.memory_latency, list(packet.beats)])
            else:
                assert read is None
        assert takers or read is None
        if int(dut.table_read_o.value):
            self.table_data = pack("queue_pair_t", **self.table[int(dut.table_index_o.value)])
        # Frames.
        if int(dut.frame_valid_o.value):
            seen = int(dut.frame_o.value)
            assert self.held in (None, seen), "a beat was changed"
            self.held = None if int(dut.frame_ready_i.value) else seen
            if self.held is None:
                self.beat(unpack("beat_t", seen))
        else:
            assert self.held is None, "a beat was withdrawn"
            if self.current:
                assert not int(dut.frame_ready_i.value), "a frame waited within"
        self.sent += int(dut.events_o.value) >> 1  # the lowest bit counts notifications
        if self.awaited:
            pass
        if int(dut.idle_o.value):
            assert not self.awaited or self.awaited[0][0] == self.cycle

    def beat(self, beat):
        if self.current is None:
            self.current = [self.cycle, b""]
        self.current[1] += beat["data"].to_bytes(64, "little")
        if beat["last"]:
            first, data = self.current
            self.current = None
            end = len(data) - beat["empty"]
            _, packet = self.awaited.popleft()
            assert data[:end].hex() == packet.frame.hex(), packet.name
            assert data[end:] == bytes(len(data) - end)
            self.frames.append((first, self.cycle, packet))

    async def drain(self):
        begin = self.cycle
        while self.awaited or any(self.queues.values()):
            await self.step()
            assert self.cycle < begin + 100_000, "stuck"
        await self.step()
        assert int(self.dut.idle_o.value)
        assert self.sent == len(self.frames)


async def begin(dut, seed):
    chance = random.Random(seed)
    harness = Harness(dut, chance, Table(chance))
    await harness.start()
    return chance, harness.table, harness


def random_packet(chance, table, longest=300):
    name = chance.choice(OPCODES)
    if name not in PAYLOAD:
        return Packet(chance, table, name)
    count = chance.choice((1, 2, 3, 4, 8, 63, 64, 65, chance.randint(1, longest), chance.randint(1, longest)))
    if name in ("SendOnly", "WriteOnly", "ReadResponseOnly", "SendOnlyImmediate", "WriteOnlyImmediate"):
        count *= chance.random() > 0.2
    return Packet(chance, table, name, count)


@cocotb.test()
async def every_opcode_and_fill(dut):
    chance, table, harness = await begin(dut, 1)
    for name in OPCODES:
        for count in [*range(0, 72), 4_095, 4_096] if name in PAYLOAD else [0]:
            if name in ("SendOnly", "WriteOnlyImmediate", "ReadResponseMiddle") or count in (0, 1, 6, 64):
                harness.queues["request"].append(Packet(chance, table, name, count))
    await harness.drain()
    assert min(len(packet.frame) for _, _, packet in harness.frames) == 60


@cocotb.test()
async def latencies(dut):
    chance, table, harness = await begin(dut, 2)
    for name, count, latency in (
        ("Acknowledge", 0, 7),
        ("ReadRequest", 0, 7),
        ("FetchAdd", 0, 7),
        ("SendOnly", 0, 7),
        ("WriteOnly", 40, 12),
        ("SendOnly", 8, 13),  # 66 bytes: the ICRC is split between two beats
    ):
        for source in ("request", "response"):
            packet = Packet(chance, table, name, count)
            while count and len(packet.beats) > 1:
                packet = Packet(chance, table, name, count)
            harness.queues[source].append(packet)
            await harness.drain()
            taken, first = harness.taken[-1][0], harness.frames[-1][0]
            assert first - taken == latency, f"{name}: {first - taken}"


@cocotb.test()
async def small_writes_at_full_rate_behind_slow_memory(dut):
    chance, table, harness = await begin(dut, 3)
    harness.memory_latency = 250
    harness.queues["request"] += [Packet(chance, table, "WriteOnly", 64) for _ in range(400)]
    await harness.drain()
    firsts = [first for first, _, _ in harness.frames]
    assert firsts[-1] - firsts[0] == 3 * 399


@cocotb.test()
async def long_frames_at_full_rate(dut):
    chance, table, harness = await begin(dut, 4)
    # An unaligned payload also has 65 beats, so memory is just fast enough. With a memory latency of a microsecond,
    # the packets that wait still keep the wire busy, which takes 84 cycles for a frame at 100 Gb/s.
    for latency, cycles in ((150, 65), (250, 84)):
        harness.memory_latency = latency
        packets = [Packet(chance, table, "WriteMiddle", 4_096) for _ in range(30)]
        for packet in packets:
            assert len(packet.frame) == 4_154
        harness.queues["request"] += packets[:15]
        harness.queues["response"] += packets[15:]
        await harness.drain()
        firsts = [first for first, _, _ in harness.frames[-30:]]
        assert 65 * 29 <= firsts[-1] - firsts[0] <= cycles * 29


@cocotb.test()
async def acknowledgements_back_to_back_in_fair_turns(dut):
    chance, table, harness = await begin(dut, 5)
    for _ in range(150):
        harness.queues["request"].append(Packet(chance, table, "FetchAdd"))
        harness.queues["response"].append(Packet(chance, table, "Acknowledge"))
    await harness.drain()
    firsts = [first for first, _, _ in harness.frames]
    assert firsts[-1] - firsts[0] in (3 * 149 + 1, 3 * 149 + 2)
    names = [name for _, name, _ in harness.taken]
    for place in range(0, len(names), 2):
        assert set(names[place : place + 2]) == {"request", "response"}


@cocotb.test()
async def a_hundred_and_twenty_eight_may_wait(dut):
    chance, table, harness = await begin(dut, 6)
    harness.memory_latency = 1_000
    harness.queues["request"] += [Packet(chance, table, "WriteOnly", 64) for _ in range(200)]
    for _ in range(500):
        await harness.step()
    assert 128 <= len(harness.taken) <= 132
    await harness.drain()


@cocotb.test()
async def no_more_than_twelve_kibibytes_wait(dut):
    chance, table, harness = await begin(dut, 9)
    harness.memory_latency = 1_000
    harness.queues["request"] += [Packet(chance, table, "WriteMiddle", 4_096) for _ in range(20)]
    for _ in range(900):
        await harness.step()
    # Three packets, 12 KiB, wait for their payloads. Up to two more may already be in the header builder.
    assert 3 <= len(harness.taken) <= 5
    await harness.drain()


@cocotb.test()
async def random_packets_and_waits(dut):
    chance, table, harness = await begin(dut, 7)
    for rates in ((1, 1, 1, 1), (0.3, 1, 1, 1), (1, 0.3, 1, 1), (1, 1, 0.3, 1), (1, 1, 1, 0.3), (0.7, 0.7, 0.7, 0.7)):
        harness.offer_rate, harness.read_rate, harness.data_rate, harness.frame_rate = rates
        harness.memory_latency = chance.choice((3, 40))
        for _ in range(60):
            harness.queues["request"].append(random_packet(chance, table))
            harness.queues["response"].append(random_packet(chance, table))
        await harness.drain()


@cocotb.test()
async def a_blocked_output_loses_nothing(dut):
    chance, table, harness = await begin(dut, 8)
    harness.memory_latency = 20
    harness.queues["request"] += [random_packet(chance, table, 4_096) for _ in range(60)]
    harness.paused = lambda: harness.cycle % 1_500 < 1_000
    await harness.drain()


def test_transmit_path():
    sources = [
        "weft_pkg.sv",
        "rdma/transmit_pkg.sv",
        "stream/ram.sv",
        "stream/fifo.sv",
        "stream/ram_fifo.sv",
        "stream/arbiter.sv",
        "stream/realign.sv",
        "wire/crc_pkg.sv",
        "wire/crc_scale.sv",
        "wire/icrc.sv",
        "rdma/header_builder.sv",
        "rdma/frame_builder.sv",
        "rdma/icrc_insert.sv",
        "rdma/transmit_path.sv",
    ]
    bench.run("transmit_path", sources, __file__)
