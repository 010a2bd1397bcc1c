"""kv_table: results of lookups during concurrent applies, against snapshots of every bucket. The memory exposes
every race: data that is read while it is written is torn."""

import random
from collections import deque

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly

import bench
from structs import constant, pack, unpack

WAYS = constant("Ways")
SLOT = 64 + constant("ValueBytesMax")
JOURNAL = constant("BucketsMax") * WAYS * SLOT
BEAT = (1 << 512) - 1
READ, FIND, PASS, FETCH = (constant(f"Lookup{kind}") for kind in ("Read", "Find", "Pass", "Fetch"))


class Memory:
    """An AXI4 slave, in order, that returns torn data if a word is read while it is written."""

    def __init__(self, dut, chance, latency, ready, write_latency=None):
        self.dut, self.chance, self.ready = dut, chance, ready
        self.latency = latency
        self.write_latency = write_latency or latency
        self.words = {}
        self.reads = deque()  # [due, [(word, torn)]]
        self.addresses = deque()
        self.beats = deque()
        self.unanswered = deque()  # [due, words, data]
        self.writing = {}
        self.now = 0
        self.torn = 0
        self.reads_taken = 0
        self.asked = []  # cycles of read addresses
        self.offered = None
        self.r = self.b = False

    def likely(self):
        return self.ready == 1 or self.chance.random() < self.ready

    def drive(self):
        dut = self.dut
        self.now += 1
        dut.memory_aw_ready_i.value = int(self.likely())
        dut.memory_w_ready_i.value = int(self.likely())
        dut.memory_ar_ready_i.value = int(self.likely())
        self.b = bool(self.unanswered) and self.unanswered[0][0] <= self.now
        dut.memory_b_valid_i.value = int(self.b)
        if not self.r:  # an offer stays valid until accepted
            self.r = bool(self.reads) and self.reads[0][0] <= self.now and self.likely()
            dut.memory_r_valid_i.value = int(self.r)
            if self.r:
                words = self.reads[0][1]
                word, torn = words[0]
                data = self.words.get(word, 0)
                if torn is not None:
                    self.torn += 1
                    data = self.chance.choice([data, torn, self.chance.getrandbits(512)])
                dut.memory_r_i.value = (len(words) == 1) << 514 | data

    def burst(self, value):
        address = unpack("axi_address_t", value)
        first, count = address["address"], address["length"] + 1
        assert first % 64 == 0
        assert first // 4096 == (first + 64 * count - 1) // 4096, "a burst crosses 4 KiB"
        return [first // 64 + i for i in range(count)]

    def sample(self):
        dut = self.dut
        if int(dut.memory_ar_valid_o.value):
            value = int(dut.memory_ar_o.value)
            assert self.offered in (None, value), "an address changed"
            self.offered = value
            if int(dut.memory_ar_ready_i.value):
                self.offered = None
                self.asked.append(self.now)
                self.reads_taken += 1
                words = [[word, self.writing.get(word)] for word in self.burst(value)]
                self.reads.append([self.now + self.chance.randint(*self.latency), words])
        else:
            assert self.offered is None, "an address was taken back"
        if self.r and int(dut.memory_r_ready_o.value):
            self.r = False
            self.reads[0][1].pop(0)
            if not self.reads[0][1]:
                self.reads.popleft()
        if self.b:
            _, words, data = self.unanswered.popleft()
            for word, value in zip(words, data, strict=True):
                self.words[word] = value
                if not any(word in other for _, other, _ in self.unanswered):
                    self.writing.pop(word, None)
        if int(dut.memory_aw_valid_o.value) and int(dut.memory_aw_ready_i.value):
            words = self.burst(int(dut.memory_aw_o.value))
            self.addresses.append(words)
            for word in words:
                self.writing[word] = 0
                for _, reading in self.reads:
                    for one in reading:
                        if one[0] == word:
                            one[1] = 0
        if int(dut.memory_w_valid_o.value) and int(dut.memory_w_ready_i.value):
            self.beats.append(int(dut.memory_w_o.value))
        while self.addresses and len(self.beats) >= len(self.addresses[0]):
            words = self.addresses.popleft()
            beats = [self.beats.popleft() for _ in words]
            assert [beat >> 576 for beat in beats] == [0] * (len(words) - 1) + [1]
            assert all(beat >> 512 & (1 << 64) - 1 == (1 << 64) - 1 for beat in beats)
            data = [beat & BEAT for beat in beats]
            for word, value in zip(words, data, strict=True):
                self.writing[word] = value
                for _, reading in self.reads:
                    for one in reading:
                        if one[0] == word and one[1] is not None:
                            one[1] = value
            self.unanswered.append((self.now + self.chance.randint(*self.write_latency), words, data))

    def bytes(self, address, count):
        return b"".join(
            self.words.get(address // 64 + i, 0).to_bytes(64, "little") for i in range(-(-count // 64))
        )[:count]


class Bucket:
    """The history of a bucket: the contents of its ways after each apply."""

    def __init__(self):
        self.states = [{}]  # {way: (key, version, value)}
        self.given_back = [0]  # number of reservations released, after each apply
        self.retired = 0  # number of retired applies
        self.reserved = 0  # number of reservations, not counting releases by applies

    def apply(self, apply):
        ways = dict(self.states[-1])
        way = next((way for way, slot in ways.items() if slot[0] == apply["key"]), None)
        full = False
        if apply["newer_only"] and way is not None and ways[way][1] >= apply["version"]:
            pass
        elif apply["deletes"]:
            if way is not None:
                del ways[way]
        else:
            if way is None:
                free = [way for way in range(WAYS) if way not in ways]
                behind = [way for way in free if way >= apply["place"]["way"]]
                way = (behind + free)[0] if free else None
            if way is None:
                full = True
            else:
                ways[way] = (apply["key"], apply["version"], apply["value"])
        self.states.append(ways)
        self.given_back.append(self.given_back[-1] + apply["reserved"])
        return full


class Table:
    """Drives all inputs, cycle by cycle, and checks all outputs."""

    def __init__(self, dut, seed, latency=(1, 40), ready=0.8, write_latency=None):
        self.dut = dut
        self.chance = random.Random(seed)
        self.memory = Memory(dut, self.chance, latency, ready, write_latency)
        self.buckets = {}
        self.rate = 1.0  # rate of accepting results
        self.value_rate = 1.0
        self.queues = {name: deque() for name in
                       ("lookup", "apply", "apply_value", "reserve", "release", "scan", "journal", "journal_value")}
        self.offered = {}
        self.lookups = deque()  # in progress
        self.results = []
        self.value = None
        self.counted = deque()  # applies to be retired: (stream, bucket, serial)
        self.reserving = deque()
        self.scanning = None
        self.journaling = deque()
        self.journaled = {}
        self.retired = 0
        self.fulls = 0
        self.events = {}
        self.granted = deque()

    async def start(self, mask):
        dut = self.dut
        for handle in dut:
            if handle._name.endswith(("_valid_i", "_ready_i")):
                handle.value = 0
        dut.memory_b_response_i.value = 0
        dut.bucket_mask_i.value = mask
        dut.rst_ni.value = 0
        cocotb.start_soon(Clock(dut.clk_i, 4, unit="ns").start())
        for _ in range(3):
            await FallingEdge(dut.clk_i)
        dut.rst_ni.value = 1
        await self.until(lambda: int(dut.idle_o.value), mask + 20)

    def bucket(self, index):
        return self.buckets.setdefault(index, Bucket())

    async def until(self, done, limit=20_000):
        for _ in range(limit):
            await self.cycle()
            if done():
                return
        raise AssertionError("it takes too long")

    async def drained(self):
        calm = 0

        def done():
            nonlocal calm
            busy = any(self.queues.values()) or self.lookups or self.counted or self.journaling or self.value is not None
            calm = 0 if busy or not int(self.dut.idle_o.value) else calm + 1
            return calm > 8

        await self.until(done)

    async def cycle(self):
        dut = self.dut
        await FallingEdge(dut.clk_i)
        self.memory.drive()
        for name, queue in self.queues.items():
            # An offer stays valid until accepted.
            if name not in self.offered and queue and (name != "scan" or self.scanning is None):
                if self.chance.random() < (self.value_rate if name.endswith("value") else 0.9 if self.rate < 1 else 1):
                    self.offered[name] = queue.popleft()
                    self.drive(name, self.offered[name])
            valid = getattr(dut, f"{name}_valid_i")
            valid.value = int(name in self.offered)
        dut.result_ready_i.value = int(self.value is None and self.chance.random() < self.rate)
        dut.result_value_ready_i.value = int(self.value is not None and self.chance.random() < self.rate)
        await ReadOnly()
        self.memory.sample()
        self.outputs()
        for name in list(self.offered):
            if int(getattr(dut, f"{name}_ready_o").value):
                self.accepted(name, self.offered.pop(name))

    def drive(self, name, item):
        dut = self.dut
        if name == "lookup":
            dut.lookup_i.value = pack("lookup_t", **{k: v for k, v in item.items() if not k.startswith("_")})
        elif name == "apply":
            fields = {k: v for k, v in item.items() if k != "value"}
            dut.apply_i.value = pack("apply_t", value_bytes=len(item["value"]), **fields)
        elif name in ("reserve", "release"):
            getattr(dut, f"{name}_bucket_i").value = item
        elif name == "scan":
            dut.scan_bucket_i.value, dut.scan_way_i.value = item
        elif name == "journal":
            dut.journal_i.value = pack("journal_t", **{k: v for k, v in item.items() if k != "value"})
        else:
            getattr(dut, f"{name}_i").value = item

    def accepted(self, name, item):
        if name == "lookup":
            item["_bucket"] = item["place"]["bucket"]
            item["_at"] = self.memory.now
            self.lookups.append(item)
        elif name == "apply":
            index = item["place"]["bucket"]
            self.fulls += self.bucket(index).apply(item)
            serial = len(self.bucket(index).states) - 1
            if item["counts"]:
                self.counted.append((item["stream"], index, serial, item["key"]))
        elif name == "reserve":
            self.reserving.append((item, self.memory.now))
        elif name == "release":
            self.bucket(item).reserved -= 1
        elif name == "scan":
            self.scanning = (item, self.bucket(item[0]).retired)
        elif name == "journal":
            self.journaling.append(item)

    def outputs(self):
        dut = self.dut
        events = int(dut.events_o.value)
        if events:
            for name, value in unpack("kv_table_events_t", events).items():
                self.events[name] = self.events.get(name, 0) + value
        if int(dut.result_value_valid_o.value) and int(dut.result_value_ready_i.value):
            beat = unpack("beat_t", dut.result_value_o.value)
            expected, got = self.value
            got += beat["data"].to_bytes(64, "little")[: 64 - beat["empty"]]
            self.value = (expected, got)
            if beat["last"]:
                assert got == expected
                self.value = None
            else:
                assert len(got) < len(expected)
        elif int(dut.result_value_ready_i.value):
            raise AssertionError("a value paused")
        if int(dut.result_valid_o.value):
            self.offer()
            if int(dut.result_ready_i.value):
                self.result(unpack("looked_up_t", dut.result_o.value))
        if int(dut.reserve_done_o.value):
            self.reservation(int(dut.reserve_granted_o.value))
        if int(dut.scan_done_o.value):
            self.scan(int(dut.scan_some_o.value), int(dut.scan_way_o.value))
        if int(dut.retired_valid_o.value):
            stream, index, serial, _ = self.counted.popleft()
            assert stream == int(dut.retired_stream_o.value)
            self.bucket(index).retired = serial
            self.retired += 1
        if int(dut.journaled_valid_o.value):
            item = self.journaling.popleft()
            assert int(dut.journaled_stream_o.value) == item["stream"]
            self.journaled[item["stream"], item["place"]] = item

    def offer(self):
        """Called before the retirements of this cycle: applies retired before a result is offered must be visible
        to its lookup."""
        lookup = self.lookups[0]
        lookup.setdefault("_offered", self.memory.now)
        lookup["_low"] = self.bucket(lookup["_bucket"]).retired

    def result(self, result):
        lookup = self.lookups.popleft()
        states = self.bucket(lookup["_bucket"]).states[lookup["_low"]:]
        kind = lookup["kind"]
        assert (result["kind"], result["asker"], result["place"]) == (kind, lookup["asker"], lookup["place"])
        if kind == FETCH:
            slots = [state.get(lookup["place"]["way"]) for state in states]
        elif kind == PASS:
            slots = [None]
        else:
            slots = [next((s for s in state.values() if s[0] == lookup["key"]), None) for state in states]
        if not result["found"]:
            assert None in slots, f"{lookup} was there"
            assert result["version"] == 0 and result["value_bytes"] == 0
            assert result["key"] == lookup["key"]
        else:
            slot = next((s for s in slots if s and (s[0], s[1]) == (result["key"], result["version"])), None)
            assert slot, f"{lookup} gave {result}"
            assert result["value_bytes"] == len(slot[2])
            if kind in (READ, FETCH) and slot[2]:
                self.value = (slot[2], b"")
        self.results.append((lookup, result))

    def reservation(self, granted):
        index, at = self.reserving.popleft()
        bucket = self.bucket(index)
        used = [
            len(state) + bucket.reserved - back
            for state, back in list(zip(bucket.states, bucket.given_back, strict=True))[bucket.retired:]
        ]
        assert granted or max(used) >= WAYS, "a reservation was refused"
        assert not granted or min(used) < WAYS, "a reservation too many"
        bucket.reserved += granted
        self.granted.append((index, granted, self.memory.now - at))

    def scan(self, some, way):
        (index, start), low = self.scanning
        states = self.bucket(index).states[low:]
        self.scanning = None
        found = [next((way for way in range(start, WAYS) if way in state), None) for state in states]
        assert (way if some else None) in found

    def lookup(self, kind, place, key):
        caller = {"kind": 2, "mac": self.chance.getrandbits(48), "address": 5, "port": self.chance.getrandbits(16)}
        asker = {"caller": caller, "client": self.chance.getrandbits(64),
                 "request": self.chance.getrandbits(64)}
        self.queues["lookup"].append({"kind": kind, "key": key, "place": place, "asker": asker})

    def apply(self, place, key, version, value=None, reserved=0, newer_only=0, counts=1, stream=0):
        self.queues["apply"].append({
            "deletes": int(value is None), "newer_only": newer_only, "key": key, "place": place, "version": version,
            "value": value or b"", "reserved": reserved, "counts": counts, "stream": stream,
        })
        if value:
            self.queues["apply_value"].extend(beats(value, self.chance))

    def journal(self, stream, place, value):
        header = self.chance.getrandbits(512)
        self.queues["journal"].append(
            {"stream": stream, "place": place, "value_bytes": len(value), "header": header, "value": value})
        self.queues["journal_value"].extend(beats(value, self.chance))

    def unretired(self):
        waiting = [*self.queues["apply"], *filter(None, [self.offered.get("apply")])]
        return {item["key"] for item in waiting} | {key for *_, key in self.counted}

    def check_memory(self):
        for index, bucket in self.buckets.items():
            for way, (key, version, value) in bucket.states[-1].items():
                image = self.memory.bytes((index * WAYS + way) * SLOT, 64 + len(value))
                header = version.to_bytes(8, "big") * 2 + len(value).to_bytes(2, "big") + b"\3" + bytes(5)
                assert image[:64] == (header + key.to_bytes(8, "big")).ljust(64, b"\0")
                assert image[64:] == value
        for (stream, place), item in self.journaled.items():
            address = JOURNAL + (stream * constant("WindowEntries") + place) * SLOT
            image = self.memory.bytes(address, 64 + len(item["value"]))
            assert image == item["header"].to_bytes(64, "little") + item["value"]


def beats(data, chance):
    out = []
    for at in range(0, len(data), 64):
        part = data[at : at + 64]
        out.append((at + 64 >= len(data)) << 518 | (64 - len(part)) << 512
                   | int.from_bytes(part + chance.randbytes(64 - len(part)), "little"))
    return out


def places(chance, count, buckets, tags):
    """Random keys and their places."""
    keys = {}
    while len(keys) < count:
        key = chance.getrandbits(64)
        keys[key] = {"bucket": chance.choice(buckets), "way": chance.randrange(WAYS), "tag": chance.choice(tags)}
    return list(keys.items())


async def stress(table, steps, keys, lengths, lookups=0.5, applies=0.4, newer=0.05, puts=0.7, forwards=False):
    """Random operations, about one of each kind every few cycles. With `forwards`, keys with unretired applies are
    not looked up, since the engine answers these from its window."""
    chance = table.chance
    version = 0
    for step in range(steps):
        key, place = chance.choice(keys)
        if chance.random() < lookups and len(table.queues["lookup"]) < 4:
            kind = chance.choice([READ, READ, READ, FIND, FIND, PASS, FETCH])
            if forwards and (kind == FETCH or key in table.unretired()):
                kind = PASS
            table.lookup(kind, place, key)
        if chance.random() < applies and len(table.queues["apply"]) < 3:
            key, place = chance.choice(keys)
            version += 1
            value = chance.randbytes(chance.choice(lengths)) if chance.random() < puts else None
            only = int(value is not None and chance.random() < newer)
            which = max(1, version - chance.randrange(100)) if only else version
            reserved = 0
            grant = next((g for g in table.granted if g[0] == place["bucket"] and g[1]), None)
            if grant and value is not None and chance.random() < 0.7:
                table.granted.remove(grant)
                reserved = 1
            table.apply(place, key, which, value, reserved, only, int(forwards or chance.random() < 0.9),
                        chance.randrange(8))
        if chance.random() < 0.1 and not table.queues["reserve"]:
            table.queues["reserve"].append(place["bucket"])
        if chance.random() < 0.05 and table.granted and not table.queues["release"]:
            index, granted, _ = table.granted.popleft()
            if granted:
                table.queues["release"].append(index)
        if chance.random() < 0.05 and not table.queues["scan"]:
            table.queues["scan"].append((place["bucket"], chance.randrange(WAYS)))
        if chance.random() < 0.05 and not table.queues["journal"]:
            table.journal(chance.randrange(8), chance.randrange(256), chance.randbytes(chance.randrange(1, 600)))
        await table.cycle()
    await table.drained()
    table.check_memory()
    assert table.journaled
    assert table.events.get("apply_full", 0) == table.fulls
    assert table.events.get("memory_fault", 0) == 0
    assert table.memory.torn == 0, "something was read while it was written"


LENGTHS = [0, 1, 20, 63, 64, 65, 128, 200, 1000, 1024]


@cocotb.test()
async def hot_keys(dut):
    """A few keys with mostly equal tags, in two buckets, with long values: provokes every hazard constantly."""
    table = Table(dut, 1)
    await table.start(mask=255)
    keys = places(table.chance, 10, [3, 7], [5, 6])
    table.rate = 0.7
    await stress(table, 6_000, keys, LENGTHS, puts=0.6)
    assert len(table.results) > 150 and table.retired > 50


@cocotb.test()
async def forwarded(dut):
    """More buckets, with `forwards`: a lookup meets a write only by equal tags, so applies overlap much more."""
    table = Table(dut, 7, latency=(10, 60))
    await table.start(mask=255)
    keys = places(table.chance, 72, [3, 7, 9, 12, 77, 200], list(range(5, 17)))
    await stress(table, 6_000, keys, LENGTHS, puts=0.6, newer=0, forwards=True)
    assert len(table.results) > 300 and table.retired > 100


@cocotb.test()
async def nearly_full(dut):
    """More keys than ways."""
    table = Table(dut, 2, latency=(1, 10))
    await table.start(mask=255)
    keys = places(table.chance, 90, [3, 64 + 3], list(range(1, 40)))
    await stress(table, 5_000, keys, [1, 64, 70, 130], applies=0.9, puts=0.85)
    assert table.fulls > 10
    assert any(not granted for _, granted, _ in table.granted) and len(table.results) > 300


@cocotb.test()
async def many_buckets(dut):
    """Other memory latencies, slow consumers of results, late values."""
    table = Table(dut, 3, latency=(60, 150), ready=0.95, write_latency=(20, 60))
    await table.start(mask=1023)
    keys = places(table.chance, 200, [*range(0, 1024, 37), 1023], [1, 2, 3, 2047])
    table.rate = 0.5
    table.value_rate = 0.5
    await stress(table, 5_000, keys, LENGTHS, lookups=0.4, applies=0.3)
    table.rate = table.value_rate = 1.0
    await stress(table, 3_000, keys, [1, 64, 100], lookups=1, applies=0.3)
    assert len(table.results) > 700


@cocotb.test()
async def clears(dut):
    """After a clear, or with another mask, no key is present and no way is in use."""
    table = Table(dut, 4)
    await table.start(mask=255)
    keys = places(table.chance, 60, [0, 255], [9])
    for version, (key, place) in enumerate(keys):
        table.apply(place, key, version + 1, b"value")
    await table.drained()
    for mask in (255, 511):
        await FallingEdge(dut.clk_i)
        if mask == 255:
            dut.clear_valid_i.value = 1
            await ReadOnly()
            assert int(dut.clear_ready_o.value)
            await FallingEdge(dut.clk_i)
            dut.clear_valid_i.value = 0
            cycles = 0
            while not int(dut.clear_done_o.value):
                await FallingEdge(dut.clk_i)
                await ReadOnly()
                cycles += 1
            assert cycles <= 260
        else:
            dut.bucket_mask_i.value = mask
        table.buckets = {}
        for key, place in keys:
            table.lookup(READ, place, key)
        table.queues["scan"].append((0, 0))
        table.queues["reserve"].extend([255] * 33)
        before = len(table.results)
        await table.drained()
        assert not any(result["found"] for _, result in table.results[before:])
        assert [granted for _, granted, _ in table.granted] == [1] * 32 + [0]
        table.granted.clear()
        for version, (key, place) in enumerate(keys):
            table.apply(place, key, version + 1, b"value")
        await table.drained()
        table.check_memory()


@cocotb.test()
async def retires_behind_results(dut):
    """A write is not retired while an older result waits to be accepted; but its slot is written."""
    table = Table(dut, 8)
    await table.start(mask=255)
    ((key, place),) = places(table.chance, 1, [1], [1])
    table.apply(place, key, 1, b"old")
    await table.drained()
    table.rate = 0
    table.lookup(FIND, place, key)
    table.lookup(READ, place, key)
    for _ in range(100):
        await table.cycle()
    table.apply(place, key, 2, b"new")
    table.apply(place, key, 3, b"newest")
    for _ in range(300):
        await table.cycle()
    table.check_memory()
    assert table.retired == 1
    table.rate = 1
    await table.drained()
    assert table.retired == 3
    assert [result["version"] for _, result in table.results] == [1, 1]


@cocotb.test()
async def latency(dut):
    """In an idle table: an address 3 cycles after its lookup, a result 2 cycles after its last beat, a reservation
    after 3."""
    table = Table(dut, 5, latency=(10, 10), ready=1)
    await table.start(mask=255)
    keys = places(table.chance, 3, [9], [1])
    (key, place), (other, other_place), _ = keys
    other_place["tag"] = 2
    table.apply(place, key, 1, bytes(range(100)))
    await table.drained()
    table.memory.asked.clear()
    table.lookup(READ, place, key)
    table.lookup(FIND, other_place, other)
    await table.drained()
    (lookup, result), (miss, missed) = table.results
    assert result["found"] and not missed["found"]
    assert table.memory.asked == [lookup["_at"] + 3]
    # The header arrives at the earliest 10 cycles after the address, and then two beats.
    assert lookup["_offered"] <= lookup["_at"] + 3 + 10 + 2 + 2
    table.results.clear()
    table.lookup(FIND, other_place, other)
    await table.drained()
    ((miss, missed),) = table.results
    assert miss["_offered"] <= miss["_at"] + 6
    table.queues["reserve"].append(9)
    await table.drained()
    assert table.granted[0] == (9, 1, 3)
    assert table.events["lookups"] == 1 and table.events["lookup_hits_in_one_access"] == 1
    assert table.events["lookup_accesses"] == 1 and table.events["lookup_hits"] == 1


@cocotb.test()
async def rates(dut):
    """Rates at a memory latency of 100 cycles: a read of 64 bytes in at most 4 cycles; reads of 1 KiB; an
    overwrite of 1 KiB in 30."""
    table = Table(dut, 6, latency=(100, 100), ready=1, write_latency=(60, 60))
    await table.start(mask=1023)
    keys = places(table.chance, 200, list(range(1024)), [1, 2, 3])
    for version, (key, place) in enumerate(keys):
        table.apply(place, key, version + 1, table.chance.randbytes(64))
    await table.drained()
    begin = table.memory.now
    for _ in range(2):
        for key, place in keys:
            table.lookup(READ, place, key)
    most = 0

    def done():
        nonlocal most
        most = max(most, len(table.lookups))
        return not table.lookups and not table.queues["lookup"]

    await table.until(done)
    cycles = (table.memory.now - begin) / 400
    dut._log.info("%.2f cycles for a read of 64 bytes, %d under way", cycles, most)
    assert cycles < 4 and most >= 40
    for long in (0, 1):
        begin = table.memory.now
        for version, (key, place) in enumerate(keys[:100]):
            table.apply(place, key, 1000 + 1000 * long + version, table.chance.randbytes(1024))
        await table.drained()
        cycles = (table.memory.now - begin) / 100
        dut._log.info("%.2f cycles for an overwrite of 1 KiB", cycles)
        assert cycles < 30
    begin = table.memory.now
    for key, place in keys[:100]:
        table.lookup(READ, place, key)
    await table.until(done)
    cycles = (table.memory.now - begin) / 100
    dut._log.info("%.2f cycles for a read of 1 KiB", cycles)
    assert cycles < 22
    begin = table.memory.now
    key, place = keys[0]
    for version in range(60):
        table.apply(place, key, 5000 + version, table.chance.randbytes(64))
    await table.drained()
    dut._log.info("%.2f cycles for an overwrite of one key", (table.memory.now - begin) / 60)
    begin = table.memory.now
    for version, (key, place) in enumerate(keys * 2):
        table.apply(place, key, 9000 + version, table.chance.randbytes(64))
    await table.drained()
    dut._log.info("%.2f cycles for an overwrite of 64 bytes", (table.memory.now - begin) / 400)
    table.check_memory()


def test_kv_table():
    sources = """
        weft_pkg.sv engines/engines_pkg.sv engines/kv/kv_pkg.sv engines/kv/kv_table_pkg.sv
        stream/ram.sv stream/fifo.sv stream/ram_fifo.sv stream/credit_counter.sv
        memory/axi_bursts.sv memory/axi_writer.sv
        engines/kv/kv_tags.sv engines/kv/kv_turns.sv engines/kv/kv_lookups.sv engines/kv/kv_applies.sv
        engines/kv/kv_memory.sv engines/kv/kv_table.sv
    """.split()
    bench.run("kv_table", sources, __file__)
