"""kv_window against models of its contents: entries, the newest entry of a key, waiting reads and values, on all
ports at once."""

import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly

import bench
from structs import constant, pack, unpack, width

WINDOW = constant("WindowEntries")
READS = constant("WaitingReads")
NO_LIMIT = (1 << 40) - 1


class Stream:
    def __init__(self):
        self.accepted = self.committed = self.retired = 0
        self.entries = {}  # number: (packed entry, key, indexed)
        self.waiting = {}  # number: packed askers; the first to be taken is last
        self.values = {}  # number: list of beats


class Bench:
    def __init__(self, dut, seed):
        self.dut = dut
        self.chance = random.Random(seed)
        self.streams = [Stream() for _ in range(constant("Streams"))]
        self.held = [{} for _ in self.streams]  # values that are being read, by number: how many reads
        self.cycle = 0
        self.waits = 0
        self.found = {"hit": 0, "miss": 0, "full": 0, "taken": 0, "cleared": 0}
        self.running = 0
        self.stop = False
        self.queue = {"a": [], "b": []}  # values that are being read, in order
        self.finds = None  # the stream of the find in progress, in which nothing may retire meanwhile
        self.waited = self.taken = None  # (stream, number) of the wait or take in progress

    async def start(self):
        dut = self.dut
        cocotb.start_soon(Clock(dut.clk_i, 4, unit="ns").start())
        for handle in dut:
            if handle._name.endswith(("_valid_i", "_ready_i")):
                handle.value = 0
        dut.rst_ni.value = 0
        dut.retired_i.value = 0
        for _ in range(3):
            await FallingEdge(dut.clk_i)
        dut.rst_ni.value = 1
        cocotb.start_soon(self.count())

    async def count(self):
        while True:
            await FallingEdge(self.dut.clk_i)
            self.cycle += 1

    async def pause(self, cycles=1):
        for _ in range(cycles):
            await FallingEdge(self.dut.clk_i)

    async def ask(self, prefix, **fields):
        """Offers a request from the next cycle on. Returns after the cycle in which it is accepted, with that
        cycle's number."""
        dut = self.dut
        await FallingEdge(dut.clk_i)
        valid = getattr(dut, f"{prefix}_valid_i")
        valid.value = 1
        for name, value in fields.items():
            getattr(dut, f"{prefix}_{name}_i" if name else f"{prefix}_i").value = value
        await ReadOnly()
        waited = 0
        while not int(getattr(dut, f"{prefix}_ready_o").value):
            await FallingEdge(dut.clk_i)
            await ReadOnly()
            waited += 1
            assert waited < 3000, f"{prefix} is never taken"
        taken = self.cycle
        await self.lower(valid)
        return taken

    async def lower(self, valid):
        await FallingEdge(self.dut.clk_i)
        valid.value = 0

    async def done(self, prefix):
        """Waits for completion. Returns the cycle in which it is reported."""
        signal = getattr(self.dut, f"{prefix}_done_o")
        for _ in range(3000):
            await ReadOnly()
            if int(signal.value):
                return self.cycle
            await FallingEdge(self.dut.clk_i)
        raise AssertionError(f"{prefix} never ends")

    def retired(self):
        packed = 0
        for index, stream in enumerate(self.streams):
            packed |= stream.retired << 40 * index
        return packed

    # Operations of the sequencer.

    async def push(self, index, key, place, indexed, beats=None):
        stream = self.streams[index]
        number = stream.accepted + 1
        assert number - stream.retired <= WINDOW
        stream.values.pop(number - WINDOW, None)
        stream.values[number] = value = []
        for beat in range(self.chance.randint(1, 16) if beats is None else beats):
            await FallingEdge(self.dut.clk_i)
            value.append(self.chance.randrange(1 << 512))
            self.dut.value_write_valid_i.value = 1
            self.dut.value_write_stream_i.value = index
            self.dut.value_write_place_i.value = (number - 1) % WINDOW
            self.dut.value_write_beat_i.value = beat
            self.dut.value_write_data_i.value = value[-1]
            if self.chance.random() < 0.3:
                await self.lower(self.dut.value_write_valid_i)
        await self.lower(self.dut.value_write_valid_i)
        entry = pack(
            "entry_t",
            key=key,
            place=place,
            version=self.chance.randrange(1 << 64),
            asker=self.chance.randrange(1 << width("asker_t")),
            reserved=self.chance.randrange(2),
        )
        taken = await self.ask("push", **{"": entry}, stream=index, number=number, indexed=int(indexed))
        stream.entries.pop(number - WINDOW, None)
        stream.waiting.pop(number - WINDOW, None)
        stream.entries[number] = (entry, key, indexed)
        stream.accepted = number
        return taken

    def newest(self, index, key, committed_only, below):
        stream = self.streams[index]
        top = stream.committed if committed_only else stream.accepted
        for number in range(min(top, below - 1), stream.retired, -1):
            _, of, indexed = stream.entries[number]
            if indexed and of == key:
                return number
        return None

    async def find(self, index, key, place, committed_only=False, below=NO_LIMIT):
        """Runs a find. Returns the number found and the latency in cycles."""
        self.finds = index
        expected = self.newest(index, key, committed_only, below)
        begun = await self.ask(
            "find",
            stream=index,
            key=key,
            place=pack("place_t", **place),
            committed_only=int(committed_only),
            committed=self.streams[index].committed,
            below=below,
        )
        took = await self.done("find") - begun
        if expected is None:
            assert not int(self.dut.find_hit_o.value), f"found {int(self.dut.find_number_o.value)}"
        else:
            assert int(self.dut.find_hit_o.value), f"{expected} is not found"
            assert int(self.dut.find_number_o.value) == expected
            assert int(self.dut.find_entry_o.value) == self.streams[index].entries[expected][0]
        self.found["miss" if expected is None else "hit"] += 1
        self.finds = None
        return expected, took

    async def read(self, port, index, number):
        expected = self.streams[index].entries[number][0]
        begun = await self.ask(f"read_{port}", stream=index, number=number)
        assert await self.done(f"read_{port}") - begun == 2
        assert int(getattr(self.dut, f"read_{port}_o").value) == expected

    async def wait(self, index, number):
        asker = self.chance.randrange(1 << width("asker_t"))
        await self.ask("wait", **{"": asker}, stream=index, number=number)
        full = self.waits == READS
        if full:
            self.found["full"] += 1
        else:
            self.waits += 1
            self.streams[index].waiting.setdefault(number, []).append(asker)
        await self.done("wait")
        assert int(self.dut.wait_full_o.value) == full

    async def take(self, index, number):
        await self.ask("take", stream=index, number=number)
        waiting = self.streams[index].waiting.get(number)
        expected = waiting.pop() if waiting else None
        self.waits -= expected is not None
        await self.done("take")
        assert int(self.dut.take_some_o.value) == (expected is not None)
        if expected is not None:
            assert int(self.dut.take_o.value) == expected
            self.found["taken"] += 1
        return expected is not None

    async def clear(self):
        """A new epoch: the user must take all waiting reads first."""
        for index, stream in enumerate(self.streams):
            for number in list(stream.waiting):
                while await self.take(index, number):
                    pass
        begun = await self.ask("clear")
        assert await self.done("clear") - begun == 1
        self.streams[:] = [Stream() for _ in self.streams]
        await FallingEdge(self.dut.clk_i)
        self.dut.retired_i.value = 0
        self.held = [{} for _ in self.streams]
        self.found["cleared"] += 1

    # Readers of values.

    async def read_values(self, port, pace):
        """Reads stable values repeatedly."""
        self.running += 1
        while not self.stop:
            index = self.chance.randrange(len(self.streams))
            stream = self.streams[index]
            numbers = [n for n, value in stream.values.items() if value and stream.retired < n <= stream.accepted]
            if not numbers or self.chance.random() > pace:
                await self.pause()
                continue
            number = self.chance.choice(numbers)
            self.held[index][number] = self.held[index].get(number, 0) + 1
            beats = self.chance.randint(1, len(stream.values[number]))
            expected = stream.values[number][:beats]
            await self.ask(f"value_read_{port}", stream=index, place=(number - 1) % WINDOW, beats=beats)
            self.queue[port].append((index, number, expected))
        while self.queue[port]:
            await self.pause()
        self.running -= 1

    async def take_beats(self, port, rate):
        dut = self.dut
        valid, ready = getattr(dut, f"value_beat_{port}_valid_o"), getattr(dut, f"value_beat_{port}_ready_i")
        data, last = getattr(dut, f"value_beat_{port}_o"), getattr(dut, f"value_beat_{port}_last_o")
        within, beats = False, []
        while True:
            await FallingEdge(dut.clk_i)
            ready.value = int(self.chance.random() < rate)
            await ReadOnly()
            assert int(valid.value) or not within, "a pause within a value"
            if int(valid.value) and int(ready.value):
                beats.append(int(data.value))
                within = port == "a" and not int(last.value)
                if int(last.value):
                    index, number, expected = self.queue[port].pop(0)
                    assert beats == expected
                    beats = []
                    self.held[index][number] -= 1

    def may_retire(self, index):
        stream = self.streams[index]
        number = stream.retired + 1
        return number <= stream.committed and not self.held[index].get(number) and self.finds != index


@cocotb.test()
async def the_newest_of_a_key_is_found_in_time(dut):
    w = Bench(dut, 0)
    await w.start()
    place = {"bucket": 5, "way": 1, "tag": 9}
    other = {"bucket": 5, "way": 1, "tag": 8}
    assert await w.find(3, 1, place) == (None, 2)
    await w.push(3, 1, pack("place_t", **place), True)
    await w.push(3, 2, pack("place_t", **place), True)
    await w.push(3, 2, pack("place_t", **place), False)
    await w.push(3, 9, pack("place_t", **other), True)
    assert await w.find(3, 2, place) == (2, 3)
    assert await w.find(3, 1, place) == (1, 5)
    assert await w.find(3, 7, place) == (None, 5)
    assert await w.find(2, 1, place) == (None, 2)
    await w.push(3, 1, pack("place_t", **place), True)
    assert await w.find(3, 1, place) == (5, 3)
    assert await w.find(3, 1, place, below=6) == (5, 3)
    assert await w.find(3, 1, place, below=5) == (1, 7)
    assert (await w.find(3, 1, place, below=1))[0] is None
    w.streams[3].committed = 4
    assert await w.find(3, 1, place, committed_only=True) == (1, 7)
    assert await w.find(3, 1, place, committed_only=True, below=2) == (1, 7)
    assert (await w.find(3, 1, place, committed_only=True, below=1))[0] is None
    w.streams[3].retired = 1
    await w.pause()
    dut.retired_i.value = w.retired()
    assert await w.find(3, 1, place, committed_only=True) == (None, 5)
    await w.clear()
    assert await w.find(3, 1, place) == (None, 2)


@cocotb.test()
async def a_link_that_outlived_its_entry_leads_nowhere(dut):
    """A stale link has only enough bits for two windows, so it seems to point to a later entry."""
    w = Bench(dut, 0)
    await w.start()
    place = {"bucket": 5, "way": 1, "tag": 9}
    other = {"bucket": 5, "way": 1, "tag": 8}
    await w.push(4, 1, pack("place_t", **place), True, beats=0)
    for number in range(2, 2 * WINDOW + 1):
        w.streams[4].committed = w.streams[4].retired = max(0, number - 5)
        dut.retired_i.value = w.retired()
        await w.push(4, 2, pack("place_t", **other), True, beats=0)
    await w.push(4, 1, pack("place_t", **place), False, beats=0)
    assert await w.find(4, 2, other) == (2 * WINDOW, 3)
    assert (await w.find(4, 1, place))[0] is None
    await w.push(4, 1, pack("place_t", **place), True, beats=0)
    assert await w.find(4, 1, place) == (2 * WINDOW + 2, 3)
    assert (await w.find(4, 3, place))[0] is None


@cocotb.test()
async def waiting_reads_are_bounded(dut):
    w = Bench(dut, 0)
    await w.start()
    for _ in range(3):
        await w.push(1, 1, 0, True, beats=0)
    for turn in range(READS + 2):
        await w.wait(1, 1 + turn % 3)
    assert w.found["full"] == 2
    for number in (3, 1):
        while await w.take(1, number):
            pass
    for _ in range(READS // 2):
        await w.wait(1, 1)
    await w.clear()
    assert w.found["taken"] == READS + READS // 2
    await w.push(1, 1, 0, True, beats=0)
    assert not await w.take(1, 1)


@cocotb.test()
async def values_stream_without_a_gap(dut):
    """A gets a beat every cycle, also from one value to the next, whatever B and the writer do."""
    w = Bench(dut, 0)
    await w.start()
    for _ in range(4):
        await w.push(2, 1, 0, True, beats=16)
    await FallingEdge(dut.clk_i)
    for port in "ab":
        getattr(dut, f"value_beat_{port}_ready_i").value = 1
        getattr(dut, f"value_read_{port}_stream_i").value = 2
        getattr(dut, f"value_read_{port}_place_i").value = 0
        getattr(dut, f"value_read_{port}_beats_i").value = 16
        getattr(dut, f"value_read_{port}_valid_i").value = 1
    beats = {"a": [], "b": []}
    for cycle in range(48):
        await ReadOnly()
        for port in "ab":
            if int(getattr(dut, f"value_beat_{port}_valid_o").value):
                beats[port].append((cycle, int(getattr(dut, f"value_beat_{port}_o").value)))
        await FallingEdge(dut.clk_i)
        if cycle == 31:
            dut.value_read_a_valid_i.value = 0
        dut.value_write_valid_i.value = 1
        dut.value_write_stream_i.value = 2
        dut.value_write_place_i.value = 200
        dut.value_write_data_i.value = cycle
    assert [cycle for cycle, _ in beats["a"]] == list(range(2, 34))
    assert [beat for _, beat in beats["a"]] == w.streams[2].values[1] * 2
    assert [cycle for cycle, _ in beats["b"]] == list(range(34, 48, 2))
    assert [beat for _, beat in beats["b"]] == w.streams[2].values[1][:7]


async def stress(dut, seed, steps, streams, keys, paces):
    w = Bench(dut, seed)
    await w.start()
    chance = w.chance
    # Keys share lists, and some lists are rarely used.
    places = {
        key: {"bucket": chance.randrange(1 << 14), "way": key % 32, "tag": chance.randrange(1, 1 << 11)} for key in keys
    }

    async def committer():
        """Commits and retires entries, reads them at B, and takes the reads that wait for them."""
        w.running += 1
        while not w.stop:
            index = chance.choice(streams)
            stream = w.streams[index]
            number = stream.committed + 1
            kind = chance.random()
            if kind < 0.3 and number <= stream.accepted and w.waited != (index, number):
                w.taken = (index, number)
                while await w.take(index, number):
                    pass
                stream.committed = number
                w.taken = None
            elif kind < 0.6:
                for _ in range(chance.choice((1, 1, 20))):
                    await FallingEdge(dut.clk_i)
                    if w.may_retire(index):
                        stream.retired += 1
                        dut.retired_i.value = w.retired()
            elif stream.entries:
                await w.read("b", index, chance.choice(list(stream.entries)))
            else:
                await w.pause()
        w.running -= 1

    def begin():
        w.stop = False
        cocotb.start_soon(committer())
        for port, (pace, _) in paces.items():
            cocotb.start_soon(w.read_values(port, pace))

    async def end():
        w.stop = True
        while w.running:
            await w.pause()

    for port, (_, rate) in paces.items():
        cocotb.start_soon(w.take_beats(port, rate))
    begin()
    for step in range(steps):
        if step % 200 == 0:
            room = chance.choice((2, 20, WINDOW, WINDOW))
        index = chance.choice(streams)
        stream = w.streams[index]
        key = chance.choice(keys) if chance.random() < 0.1 else keys[chance.randrange(4)]
        kind = chance.random()
        if kind < 0.5:
            if stream.accepted - stream.retired < room:
                place = pack("place_t", **places[key])
                await w.push(index, key, place, chance.random() < 0.8, beats=chance.choice((0, 1, 1, 2, 16)))
            else:
                await w.pause(3)
        elif kind < 0.85:
            below = NO_LIMIT
            if chance.random() < 0.3:
                below = chance.randint(stream.retired + 1, stream.accepted + 1)
            await w.find(index, key, places[key], chance.random() < 0.4, below)
        elif kind < 0.9 and stream.entries:
            await w.read("a", index, chance.choice(list(stream.entries)))
        elif kind < 0.998 and stream.accepted > stream.committed:
            number = chance.randint(stream.committed + 1, stream.accepted)
            if w.taken != (index, number):
                w.waited = (index, number)
                await w.wait(index, number)
                w.waited = None
        elif kind >= 0.998:
            await end()
            await w.clear()
            begin()
    await end()
    # Reads of entries that were never committed are still waiting: all of them are taken at the end.
    await w.clear()
    assert w.waits == 0
    return w


@cocotb.test()
async def one_stream_agrees_with_the_model(dut):
    w = await stress(dut, 1, 3000, [5], list(range(12)), {"a": (0.2, 0.5), "b": (0.2, 0.9)})
    assert w.found["hit"] > 300
    assert w.found["miss"] > 50
    assert w.found["taken"] > 50


@cocotb.test()
async def all_streams_agree_with_the_model(dut):
    w = await stress(dut, 2, 2000, list(range(8)), list(range(1 << 63, (1 << 63) + 30)), {"a": (1, 1), "b": (1, 0.5)})
    assert w.found["hit"] > 100
    assert w.found["cleared"] > 2


def test_kv_window():
    bench.run(
        "kv_window",
        [
            "weft_pkg.sv",
            "engines/engines_pkg.sv",
            "engines/kv/kv_pkg.sv",
            "stream/ram.sv",
            "engines/kv/kv_deep_ram.sv",
            "engines/kv/kv_values.sv",
            "engines/kv/kv_waiting_reads.sv",
            "engines/kv/kv_pending_index.sv",
            "engines/kv/kv_window.sv",
        ],
        __file__,
        parameters={"Lists": 4},
    )
