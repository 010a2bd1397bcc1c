"""memory: the data of reads, the order of all accesses, and the rates, against byte images in Python."""

import random
from collections import deque

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly, RisingEdge

import bench
from axi_model import AxiSlave
from structs import constant, pack, unpack

REGISTER, ON_CHIP, HBM, HOST = range(4)
REGISTER_BYTES = 512
ON_CHIP_BYTES = 16_384
SIZES = (REGISTER_BYTES, ON_CHIP_BYTES, 32_768, 32_768)
SLOT = constant("RetransmissionSlotBytes")
SLOTS = 8

ON_CARD = [bytearray(size) for size in SIZES[:HBM]]


class Time:
    now = 0


class Bench:
    """Drives one write at a time on the write port and one read on the read port, and checks all outputs."""

    def __init__(self, dut, seed, **slave):
        self.dut = dut
        self.chance = random.Random(seed)
        self.time = Time()
        make = lambda prefix, size: AxiSlave(dut, prefix, size, self.chance, self.time, **slave)  # noqa: E731
        self.hbm = make("hbm", SIZES[HBM])
        self.host = make("host", SIZES[HOST])
        self.retransmission = make("retransmission", SLOT * SLOTS)
        self.slaves = (self.hbm, self.host, self.retransmission)
        # A reset keeps the on-chip memory.
        self.committed = [*ON_CARD, *(bytearray(size) for size in SIZES[HBM:])]
        self.write_commands = deque()
        self.write_beats = deque()
        self.writes = deque()  # accepted or waiting, and not written yet: (target, address, payload)
        self.write_cycles = []
        self.reads = deque()
        self.read_commands = deque()
        self.expected = deque()
        self.slots = {}
        self.delivered = []
        self.data_cycles = []
        self.busy = 1.0
        self.take = 1.0
        self.faults = 0
        self.expected_faults = 0
        self.word = None
        self.words = 0
        self.word_offered = False
        for name in ("write_valid_i", "write_data_valid_i", "read_valid_i", "data_ready_i", "word_valid_i"):
            getattr(dut, name).value = 0

    async def start(self):
        cocotb.start_soon(Clock(self.dut.clk_i, 4, unit="ns").start())
        self.dut.rst_ni.value = 0
        for _ in range(2):
            await FallingEdge(self.dut.clk_i)
        self.dut.rst_ni.value = 1

    def write(self, target, address, payload, through=False):
        first = address % 64
        padded = bytes(first) + payload
        padded += bytes(-len(padded) % 64)
        count = len(padded) // 64
        strobe = (1 << len(payload)) - 1 << first
        command = pack("write_command_t", target=target, write_through=through,
                       transfer={"address": address, "bytes": len(payload)})
        beats = [
            pack("write_beat_t", last=i == count - 1, strobe=strobe >> 64 * i & (1 << 64) - 1,
                 data=int.from_bytes(padded[64 * i:64 * i + 64], "little"))
            for i in range(count)
        ]
        self.write_commands.append(command)
        self.write_beats.extend(beats)
        inside = target >= HBM or address + len(payload) <= SIZES[target]
        self.expected_faults += not inside
        places = [target] if inside else []
        if inside and through and target != HBM:
            places.append(HBM)
        self.writes.append((places, address, payload))

    def read(self, target, address, length, slot=None, retransmission=False):
        if retransmission:
            address = slot * SLOT + address % 64
        keep = slot is not None and not retransmission
        self.read_commands.append((pack(
            "read_command_t", source={"retransmission": retransmission, "target": target},
            transfer={"address": address, "bytes": length}, keep=keep, keep_address=slot * SLOT if keep else 0,
        ), target, address, length, slot, retransmission))

    def accept_read(self, target, address, length, slot, retransmission):
        first = address & ~63
        end = (address + length + 63) & ~63
        if retransmission:
            wanted = ("copy", self.slots[slot])
        elif target < HBM and address + length > SIZES[target]:
            self.expected_faults += 1
            wanted = ("memory", None, first, end, bytes(end - first), [])
        else:
            wanted = ("memory", target, first, end, bytes(self.committed[target][first:end]), list(self.writes))
        entry = {"wanted": wanted, "beats": [], "count": (end - first) // 64}
        if slot is not None and not retransmission:
            self.slots[slot] = entry
        self.expected.append(entry)

    def check(self, entry):
        wanted = entry["wanted"]
        data = b"".join(beat.to_bytes(64, "little") for beat in entry["beats"])
        if wanted[0] == "copy":
            assert data == b"".join(beat.to_bytes(64, "little") for beat in wanted[1]["beats"])
            return
        _, target, first, end, committed, then = wanted
        if data == committed:
            return
        assert target is not None, "a read outside does not give zeros"
        # Writes that were in progress may or may not be visible, and so may later ones.
        later = {id(write): write for write in (*then, *self.recent, *self.writes)}
        for place in range(first, end):
            seen = data[place - first]
            if seen == committed[place - first]:
                continue
            assert any(
                target in places and address <= place < address + len(payload) and payload[place - address] == seen
                for places, address, payload in later.values()
            ), f"target {target}, byte {place:#x}: {seen:#x} instead of {committed[place - first]:#x}"

    async def step(self):
        dut, chance = self.dut, self.chance
        await FallingEdge(dut.clk_i)
        self.time.now += 1
        for slave in self.slaves:
            slave.drive()
        offer = lambda queue, valid: queue and (valid.value == 1 or chance.random() < self.busy)  # noqa: E731
        writing = bool(offer(self.write_commands, dut.write_valid_i))
        dut.write_valid_i.value = int(writing)
        if writing:
            dut.write_i.value = self.write_commands[0]
        beating = bool(offer(self.write_beats, dut.write_data_valid_i))
        dut.write_data_valid_i.value = int(beating)
        if beating:
            dut.write_data_i.value = self.write_beats[0]
        reading = bool(offer(self.read_commands, dut.read_valid_i))
        dut.read_valid_i.value = int(reading)
        if reading:
            dut.read_i.value = self.read_commands[0][0]
        dut.data_ready_i.value = int(chance.random() < self.take)
        # As placement does, words are read only while no write is in progress.
        wording = self.word is not None and not self.words and not self.writes and not self.write_commands
        dut.word_valid_i.value = int(wording)
        if wording:
            dut.word_target_i.value, dut.word_address_i.value = self.word
        await ReadOnly()
        written = int(dut.written_o.value)
        if writing and int(dut.write_ready_o.value):
            self.write_commands.popleft()
        if beating and int(dut.write_data_ready_o.value):
            if self.write_beats.popleft() >> 576:
                self.write_cycles.append(self.time.now)
        if written:
            places, address, payload = self.writes.popleft()
            for place in places:
                self.committed[place][address:address + len(payload)] = payload
            self.recent = (self.recent + [(places, address, payload)])[-300:]
            self.written_cycles.append(self.time.now)
            registers = int(dut.registers_o.value).to_bytes(REGISTER_BYTES, "little")
            assert self.writes or registers == self.committed[REGISTER]
        if reading and int(dut.read_ready_o.value):
            self.read_cycles.append(self.time.now)
            self.accept_read(*self.read_commands.popleft()[1:])
        if int(dut.data_valid_o.value):
            value = int(dut.data_o.value)
            assert self.held in (None, value), "data changed before it was taken"
            self.held = value
            if int(dut.data_ready_i.value):
                self.held = None
                beat = unpack("beat_t", value)
                entry = self.expected[0]
                entry["beats"].append(beat["data"])
                assert beat["last"] == (len(entry["beats"]) == entry["count"])
                self.data_cycles.append(self.time.now)
                if beat["last"]:
                    self.check(self.expected.popleft())
        else:
            assert self.held is None
        if wording and int(dut.word_ready_o.value):
            self.words = 1
        if int(dut.word_data_valid_o.value):
            assert self.words
            target, address = self.word
            expected = int.from_bytes(self.committed[target][address:address + 8].ljust(8, b"\0"), "little")
            if target < HBM and address + 8 > SIZES[target]:
                expected = 0
                self.expected_faults += 1
            assert int(dut.word_data_o.value) == expected
            self.word, self.words = None, 0
        self.faults += int(dut.events_o.value)
        for slave in self.slaves:
            slave.sample()
        self.idle = int(dut.idle_o.value)
        if self.idle:
            assert len(self.writes) == len(self.write_commands)
            assert not self.expected and all(slave.is_idle() for slave in self.slaves)
        await RisingEdge(dut.clk_i)

    recent = []
    held = None

    def begin(self):
        self.written_cycles = []
        self.read_cycles = []
        self.write_cycles = []
        self.data_cycles = []

    async def drain(self, limit=20_000):
        for _ in range(limit):
            await self.step()
            if not (self.writes or self.read_commands or self.expected or self.word) and self.idle:
                break
        else:
            raise AssertionError("it does not come to rest")
        assert self.committed[HBM] == self.hbm.memory
        assert self.committed[HOST] == self.host.memory
        assert self.faults == self.expected_faults
        assert not any(slave.stalled for slave in self.slaves), "the read channel stalled"


def some(chance, target):
    """A random range in a target; sometimes one that goes past its end."""
    size = SIZES[target]
    length = chance.choice((8, 64, 64, chance.randint(1, 200), chance.randint(1, 4096)))
    if target == REGISTER:
        length = min(length, 1 + length % 300)
    address = chance.randrange(size)
    if chance.random() < 0.3:
        address &= ~63
    if target >= HBM or chance.random() < 0.9:
        address = min(address, size - length)
    return address, length


async def mixed(dut, seed, operations, **slave):
    test = Bench(dut, seed, **slave)
    chance = test.chance
    test.begin()
    await test.start()
    left = operations
    hot = [chance.randrange(SIZES[HBM] - 4096) for _ in range(3)]
    kept = {}
    while left:
        if left % 40 == 0:
            test.busy = chance.choice((0.2, 0.6, 1.0))
            test.take = chance.choice((0.3, 0.8, 1.0))
        if len(test.write_commands) < 4 and test.word is None and chance.random() < 0.4:
            left -= 1
            target = chance.choice((REGISTER, ON_CHIP, HBM, HOST))
            address, length = some(chance, target)
            if target >= HBM and chance.random() < 0.5:
                address = chance.choice(hot)
            through = chance.random() < 0.25 and target != HOST
            test.write(target, address, chance.randbytes(length), through)
        if len(test.read_commands) < 4 and chance.random() < 0.4:
            left -= 1
            target = chance.choice((REGISTER, ON_CHIP, HBM, HOST))
            address, length = some(chance, target)
            if target >= HBM and chance.random() < 0.5:
                address = chance.choice(hot)
            kind = chance.random()
            if kind < 0.3:
                slot = chance.randrange(SLOTS)
                kept[slot] = (address, length)
                test.read(target, address, length, slot)
            elif kind < 0.5 and kept:
                slot = chance.choice(sorted(kept))
                test.read(0, *kept[slot], slot, True)
            else:
                test.read(target, address, length)
        if test.word is None and chance.random() < 0.02:
            target = chance.choice((REGISTER, ON_CHIP, HBM, HOST))
            test.word = (target, chance.randrange(SIZES[target] + (64 if target < HBM else 0)) & ~7)
        left = max(left, 0)
        await test.step()
    test.busy = test.take = 1.0
    await test.drain()
    return test


@cocotb.test()
async def reads_see_what_is_written(dut):
    test = await mixed(dut, 1, 3000)
    assert test.expected_faults > 10
    assert test.hbm.most_under_way > 3


@cocotb.test()
async def slow_memories(dut):
    await mixed(dut, 2, 1000, latency=(100, 300), ready=0.3)


@cocotb.test()
async def quick_memories(dut):
    await mixed(dut, 3, 2000, latency=(1, 1), ready=1)


@cocotb.test()
async def small_reads_keep_their_rate_behind_a_distant_host(dut):
    test = Bench(dut, 4, latency=(400, 400), ready=1)
    test.begin()
    await test.start()
    for i in range(600):
        test.read(HOST if i % 4 else ON_CHIP, 64 * (i % 200), 64)
        test.write(HOST, 64 * (i % 500), bytes([i % 256]) * 64)
    await test.drain()
    reads = test.data_cycles
    assert reads[-1] - reads[0] < 3 * 600, (reads[-1] - reads[0]) / 600
    writes = test.written_cycles
    assert writes[-1] - writes[0] < 3 * 600, (writes[-1] - writes[0]) / 600


@cocotb.test()
async def large_transfers_use_every_cycle(dut):
    for target in (ON_CHIP, HBM):
        test = Bench(dut, 5, latency=(200, 200), ready=1)
        test.begin()
        await test.start()
        for i in range(20):
            test.read(target, 4096 * (i % 3), 4096, slot=i % SLOTS)
            test.write(target, 4096 * (i % 3), bytes([i]) * 4096)
        await test.drain()
        for cycles, beats in ((test.data_cycles, 1), (test.write_cycles, 64)):
            spent = cycles[-1] - cycles[0] + beats
            assert spent <= 20 * 64 + 2, spent


@cocotb.test()
async def packets_sent_again_among_new_ones_use_every_cycle(dut):
    test = Bench(dut, 7, latency=(200, 200), ready=1)
    test.begin()
    await test.start()
    for slot in range(4):
        test.read(HOST, 4096 * slot, 1024, slot=slot)
    await test.drain()
    test.begin()
    for i in range(100):
        test.read(HOST, 1024 * (i % 8), 1024, slot=4 + i % 4)
        test.read(HOST, 0, 1024, slot=i % 4, retransmission=True)
    await test.drain()
    spent = test.data_cycles[-1] - test.data_cycles[0]
    assert spent < 200 * 16 * 1.2, spent


@cocotb.test()
async def what_is_sent_again_at_once_waits_for_its_copy(dut):
    test = Bench(dut, 8, latency=(50, 200), ready=1)
    test.begin()
    await test.start()
    for i in range(40):
        test.read(HOST, 64 * i, 640, slot=i % SLOTS)
        test.read(HOST, 0, 640, slot=i % SLOTS, retransmission=True)
    await test.drain()


@cocotb.test()
async def latency(dut):
    test = Bench(dut, 6, latency=(1, 1), ready=1)
    await test.start()
    for target, write, read in ((REGISTER, 2, 5), (ON_CHIP, 2, 5), (HBM, 3, 6)):
        test.begin()
        test.write(target, 64, bytes(64))
        await test.drain()
        assert test.written_cycles[0] - test.write_cycles[0] == write, (test.written_cycles, test.write_cycles)
        test.read(target, 64, 64)
        await test.drain()
        assert test.data_cycles[0] - test.read_cycles[0] == read, (target, test.data_cycles, test.read_cycles)


def test_memory():
    blocks = ("register_file", "on_chip_memory", "local_memory", "axi_bursts", "axi_writer",
              "axi_reader", "memory_bounds", "memory_write", "memory_read", "memory")
    sources = ["weft_pkg.sv", "stream/fifo.sv", "stream/ram.sv", "stream/ram_fifo.sv", *(f"memory/{block}.sv" for block in blocks)]
    # Remove the executable of an earlier run: its name equals that of a header of the C++ library, which it would
    # shadow.
    for program in bench.BUILD.glob("memory*/memory"):
        program.unlink()
    bench.run("memory", sources, __file__, {"OnChipBytes": ON_CHIP_BYTES})
