"""kv_control: view changes and state transfers, against a model, with memories and consumers that stall."""

import collections
import random
import struct

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly

import bench
import control_model as model
from streams import Bench, beats
from structs import constant, pack, unpack

DONE, MALFORMED, UNDECIDED, LOST = (
    constant(f"Control{name}") for name in ("Done", "Malformed", "Undecided", "Lost")
)


class Control(Bench):
    """The device under test, with models of all blocks that it uses."""

    def __init__(self, dut, seed, rate=0.7, latency=8, mask=511):
        super().__init__(dut, seed)
        self.rate, self.latency, self.mask = rate, latency, mask
        self.node, self.epoch, self.full, self.base, self.base_members = 0, 9, 7, 8, 7
        self.accepted = [0] * model.STREAMS
        self.committed = [0] * model.STREAMS
        self.table = {}
        self.sessions = []
        self.commits = []
        self.recorded = []

    async def begin(self):
        await self.start(bucket_mask_i=self.mask)
        self.outgoing = self.take("outgoing", ["_o"], self.rate)
        self.applied = self.take("apply", ["_o"], self.rate)
        self.applied_values = self.take("apply_value", ["_o"], self.rate)
        self.payloads = []
        around = (self.attached, self.view, self.hash, self.scan, self.lookups, self.session, self.committer)
        for process in around:
            cocotb.start_soon(process())

    def some(self):
        """Whether a random event happens in this cycle."""
        return self.chance.random() < self.rate

    def wait(self):
        """A random latency in cycles."""
        return self.chance.randrange(self.latency)

    async def command(self, name, payload=None, **fields):
        dut = self.dut
        self.view_inputs()
        dut.command_i.value = pack("control_command_t", command=constant(name), **fields)
        dut.command_valid_i.value = 1
        if payload is not None:
            sending = cocotb.start_soon(
                self.send("payload", [{"_i": beat} for beat in beats(payload, self.chance)], self.rate)
            )
        for self.took in range(100_000):
            await ReadOnly()
            if int(dut.command_ready_o.value):
                assert int(dut.answer_valid_o.value)
                answer = unpack("control_answer_t", dut.answer_o.value)
                break
            await FallingEdge(dut.clk_i)
        else:
            raise AssertionError(f"{name} is not answered")
        await FallingEdge(dut.clk_i)
        dut.command_valid_i.value = 0
        if payload is not None:
            await sending
        if self.chance.random() < 0.5:
            await self.cycles(self.chance.randrange(4))
        return answer

    def view_inputs(self):
        for name in ("node", "epoch", "full", "base", "base_members"):
            getattr(self.dut, f"{name}_i").value = getattr(self, name)

    async def messages(self):
        """The messages sent since the last call: (kind, to, payload)."""
        await self.idle()
        assert len(self.outgoing) == len(self.payloads)
        found = []
        for (outgoing,), payload in zip(self.outgoing, self.payloads, strict=True):
            sent = unpack("outgoing_t", outgoing)
            assert not sent["reply"] and sent["header_bytes"] == 0
            assert sent["source"] == constant("ValueAttached") and sent["value_bytes"] == len(payload)
            found.append((sent["message"], sent["to"], payload))
        self.outgoing.clear()
        self.payloads.clear()
        return found

    # Models of the blocks around it.

    async def attached(self):
        """Beats of a message have no gaps, are full except the last, and are zero behind the end."""
        dut, data, begun = self.dut, b"", False
        while True:
            ready = self.some()
            dut.attached_ready_i.value = int(ready)
            await ReadOnly()
            valid = int(dut.attached_valid_o.value)
            assert valid or not begun, "a pause"
            if valid and ready:
                beat = int(dut.attached_o.value)
                last, empty = beat >> 518, beat >> 512 & 63
                part = (beat & (1 << 512) - 1).to_bytes(64, "little")
                assert last or not empty
                assert part[64 - empty :] == bytes(empty)
                data += part[: 64 - empty]
                begun = not last
                if last:
                    self.payloads.append(data)
                    data = b""
            await FallingEdge(dut.clk_i)

    async def view(self):
        """Lengths and leaders, valid one cycle after the request."""
        dut, stream, partition = self.dut, None, None
        while True:
            junk = self.chance.getrandbits(40)
            dut.accepted_i.value = junk if stream is None else self.accepted[stream]
            dut.committed_i.value = junk if stream is None else self.committed[stream]
            dut.leader_i.value = 0 if partition is None else model.leader(self.full, partition)
            await ReadOnly()
            stream, partition = int(dut.stream_o.value), int(dut.partition_o.value)
            await FallingEdge(dut.clk_i)

    async def pulse(self, valid, **values):
        for name, value in values.items():
            getattr(self.dut, name).value = value
        getattr(self.dut, valid).value = 1
        await FallingEdge(self.dut.clk_i)
        getattr(self.dut, valid).value = 0

    async def hash(self):
        dut = self.dut
        dut.hash_done_i.value = 0
        while True:
            await ReadOnly()
            asked = int(dut.hash_valid_o.value)
            key = int(dut.hash_key_o.value)
            await FallingEdge(dut.clk_i)
            if asked:
                await self.cycles(1 + self.wait())
                bucket, way, tag = model.place(key, self.mask)
                await self.pulse(
                    "hash_done_i", hash_place_i=pack("place_t", bucket=bucket, way=way, tag=tag)
                )

    async def scan(self):
        dut = self.dut
        dut.scan_done_i.value = 0
        while True:
            ready = self.some()
            dut.scan_ready_i.value = int(ready)
            await ReadOnly()
            asked = ready and int(dut.scan_valid_o.value)
            bucket, way = int(dut.scan_bucket_o.value), int(dut.scan_way_o.value)
            await FallingEdge(dut.clk_i)
            if asked:
                dut.scan_ready_i.value = 0
                assert model.leader(self.full, bucket % 256) == self.node
                await self.cycles(min(1, self.wait()))
                ways = [at for at in range(way, model.WAYS) if (bucket, at) in self.table]
                await self.pulse("scan_done_i", scan_some_i=bool(ways), scan_way_i=ways[0] if ways else 0)

    async def lookups(self):
        """Results of lookups: after a random latency, in order, each with its whole value."""
        dut = self.dut
        due = collections.deque()
        now = 0
        values = collections.deque()
        result = None
        while True:
            ready = self.some() and len(due) < 40
            dut.lookup_ready_i.value = int(ready)
            if result is None and due and due[0][0] <= now and self.some():
                _, bucket, way = due.popleft()
                version, key, value = self.table[bucket, way]
                result = pack(
                    "looked_up_t",
                    kind=constant("LookupFetch"),
                    found=1,
                    key=key,
                    place={"bucket": bucket, "way": way},
                    version=version,
                    value_bytes=len(value),
                )
                values.extend(beats(value))
                dut.result_i.value = result
            dut.result_valid_i.value = int(result is not None)
            dut.result_value_valid_i.value = int(bool(values))
            if values:
                dut.result_value_i.value = values[0]
            await ReadOnly()
            if ready and int(dut.lookup_valid_o.value):
                asked = unpack("lookup_t", dut.lookup_o.value)
                assert asked["kind"] == constant("LookupFetch")
                due.append((now + self.latency * 4, asked["place"]["bucket"], asked["place"]["way"]))
            if values and int(dut.result_value_ready_o.value):
                values.popleft()
            if result is not None and int(dut.result_ready_o.value):
                result = None
            await FallingEdge(dut.clk_i)
            now += 1

    async def session(self):
        dut = self.dut
        dut.session_answer_valid_i.value = 0
        while True:
            ready = self.some()
            dut.session_ready_i.value = int(ready)
            await ReadOnly()
            asked = ready and int(dut.session_valid_o.value)
            request = unpack("session_request_t", dut.session_o.value)
            await FallingEdge(dut.clk_i)
            if not asked:
                continue
            dut.session_ready_i.value = 0
            await self.cycles(self.wait())
            if request["command"] == constant("SessionRecord"):
                self.recorded.append(
                    tuple(request[name] for name in ("client", "request", "version", "status"))
                )
                await self.pulse("session_answer_valid_i", session_answer_i=0)
                continue
            assert request["command"] == constant("SessionExport")
            index = request["index"]
            end = index >= len(self.sessions)
            used = not end and self.sessions[index] is not None
            verdict = "SessionEnd" if end else "SessionUsed" if used else "SessionUnused"
            answer = pack("session_answer_t", verdict=constant(verdict))
            await self.pulse("session_answer_valid_i", session_answer_i=answer)
            if used:
                words = struct.unpack(">49Q", self.sessions[index])
                items = [{"_i": word, "_last_i": at == 48} for at, word in enumerate(words)]
                await self.send("word", items, self.rate)

    async def committer(self):
        dut = self.dut
        dut.commit_done_i.value = 0
        while True:
            await ReadOnly()
            asked = int(dut.commit_valid_o.value)
            stream, to = int(dut.source_o.value), int(dut.commit_o.value)
            await FallingEdge(dut.clk_i)
            if asked:
                assert self.committed[stream] < to <= self.accepted[stream]
                await self.cycles(self.wait())
                self.commits.append((stream, to, len(self.applied)))
                self.committed[stream] = to
                await self.pulse("commit_done_i")
                await self.cycles(1)

    def installed(self):
        """The applies given to the table since the last call: (version, key, value, place)."""
        found, beats_left = [], collections.deque(beat for (beat,) in self.applied_values)
        for (apply,) in self.applied:
            slot = unpack("apply_t", apply)
            assert slot["newer_only"] and not (slot["deletes"] or slot["counts"] or slot["reserved"])
            value = b""
            while True:
                beat = beats_left.popleft()
                value += (beat & (1 << 512) - 1).to_bytes(64, "little")
                if beat >> 518:
                    empty = beat >> 512 & 63
                    break
            assert len(value) - empty == slot["value_bytes"]
            assert value[slot["value_bytes"] :] == bytes(empty)
            where = tuple(slot["place"][name] for name in ("bucket", "way", "tag"))
            found.append((slot["version"], slot["key"], value[: slot["value_bytes"]], where))
        assert not beats_left
        self.applied.clear()
        self.applied_values.clear()
        return found


# View changes.


def some_lengths(chance, around=(5, 6, 7)):
    return [chance.choice(around) for _ in range(model.STREAMS)]


@cocotb.test()
async def views_change_as_in_the_model(dut):
    """Members with equal and with different bases, cuts that only some remember, malformed reports, repeated
    reports."""
    control = Control(dut, 1, latency=3)
    await control.begin()
    chance = control.chance
    change, cuts = model.ViewChange(), []
    seen = collections.Counter()
    for turn in range(60):
        nodes = chance.choice([1, 2, 3, 3, 8])
        ids = sorted(chance.sample(range(8), nodes))
        control.node = chance.choice(ids)
        control.full = sum(1 << node for node in ids)
        control.epoch = chance.randrange(6, 20)
        bases = [chance.randrange(1, control.epoch) for _ in range(2)]
        pick = lambda: chance.choice(bases) if turn % 3 else bases[0]  # noqa: E731
        base_members = lambda: chance.getrandbits(16) | (chance.random() < 0.9) * control.full  # noqa: E731
        control.base, control.base_members = pick(), base_members()
        control.accepted = some_lengths(chance)
        if turn % 10 == 0:
            change, cuts = model.ViewChange(), []
            assert (await control.command("ViewForget"))["verdict"] == DONE
            await control.command("CutForget")
            assert (await control.command("ViewDecide"))["verdict"] == UNDECIDED
            await control.command("ViewTell", to=control.full)
            assert await control.messages() == []
        await control.command("ViewBegin")
        own = model.Sealed(control.epoch, control.base, control.base_members, control.accepted, cuts)
        change.begin(control.node, control.full, own)

        async def tell(to, own=own):
            await control.command("ViewTell", to=to)
            own.heard = change.heard()
            assert await control.messages() == ([(constant("KindSealed"), to, own.encode())] if to else [])

        await tell(control.full & ~(1 << control.node))
        words = [node for node in ids if node != control.node] + chance.sample(range(16), 2)
        chance.shuffle(words)
        for sender in words:
            epochs = chance.sample(range(1, 20), chance.randrange(5))
            if chance.random() < 0.5 and epochs:
                epochs[chance.randrange(len(epochs))] = control.base
            around = (4, 5, 5, 1 << 45) if turn % 4 == 0 else (4, 5)
            past = [(epoch, some_lengths(chance, around)) for epoch in epochs]
            accepted = some_lengths(chance, (5, 6, 7, 1 << 50))
            said = model.Sealed(control.epoch, pick(), base_members(), accepted, past, chance.getrandbits(16))
            payload = bytearray(said.encode())
            # Entries of nodes beyond the maximum must be ignored.
            payload[80:144] = chance.randbytes(64)
            harm = chance.randrange(12)
            if harm == 0:
                payload = payload[: chance.randrange(1, len(payload))]
            elif harm == 1:
                payload += bytes(chance.choice([1, 8, 136]))
            elif harm == 2:
                payload[chance.choice([7, 4, 12])] ^= 1 << chance.randrange(8)
            elif harm == 3 and past:
                payload[144:148] = bytes(4)
            payload = bytes(payload)
            parsed = model.parse_sealed(payload)
            take = chance.random() < 0.95
            answer = await control.command("ViewHear", payload, take=take, **{"from": sender})
            if parsed is None:
                seen["malformed"] += 1
                assert answer["verdict"] == MALFORMED, (sender, payload.hex())
            else:
                assert answer["verdict"] == DONE and answer["heard"] == parsed.heard
                if take:
                    change.add(sender, parsed)
            assert int(dut.missing_o.value) == change.missing()
        # Usually the missing reports arrive in the end.
        for node in model.members(change.missing()):
            if chance.random() < 0.9:
                cut = (control.base, [5] * 8)
                said = model.Sealed(control.epoch, pick(), base_members(), some_lengths(chance), [cut])
                await control.command("ViewHear", said.encode(), take=1, **{"from": node})
                change.add(node, said)
        answer = await control.command("ViewDecide")
        decided = change.decide()
        if isinstance(decided, str):
            seen[decided] += 1
            assert answer["verdict"] == {"undecided": UNDECIDED, "lost": LOST}[decided]
        else:
            seen["zero" if not any(decided) else "least" if control.base == max(bases) else "cut"] += 1
            assert answer["verdict"] == DONE
            packed = int(dut.lengths_o.value)
            assert [packed >> 40 * stream & (1 << 40) - 1 for stream in range(8)] == decided
            if chance.random() < 0.8:
                await control.command("CutRemember")
                cuts = [(control.base, decided), *cuts][:4]
            # The node's own report is unchanged.
            await tell(chance.getrandbits(16))
    assert all(seen[what] > 2 for what in ("malformed", "undecided", "lost", "zero", "least", "cut")), seen


# State transfer.


def some_table(chance, buckets, slots, longest, crowded=None):
    """Random slots; if `crowded` is given, many of them in the ways of that bucket."""
    table = {}
    while len(table) < slots:
        bucket = chance.randrange(buckets) if crowded is None or chance.random() < 0.3 else crowded
        length = chance.choice([1, 7, 8, 9, 63, 64, 65, 127, 1024]) if longest is None else longest
        table[bucket, chance.randrange(32)] = (
            chance.getrandbits(64),
            chance.getrandbits(64),
            chance.randbytes(length),
        )
    return table


def some_session(chance, client):
    places = [
        (chance.choice([0, chance.getrandbits(64)]), chance.getrandbits(64), chance.randrange(4)) for _ in range(16)
    ]
    return model.session_record(client, places)


async def gives(control, sessions, position):
    attempt = control.chance.getrandbits(32)
    to = control.chance.randrange(16)
    await control.command("TransferGive", attempt=attempt, sessions=sessions, position=position, **{"from": to})
    tag = control.committed[control.node]
    if sessions:
        expected = model.answer_sessions(control.epoch, attempt, position, tag, control.sessions)
    else:
        leads = lambda partition: model.leader(control.full, partition) == control.node  # noqa: E731
        expected = model.answer_buckets(control.epoch, attempt, position, tag, control.table, control.mask, leads)
    found = await control.messages()
    assert len(found) == len(expected), (len(found), len(expected))
    for got, want in zip(found, expected, strict=True):
        assert got[:2] == (constant("KindStateChunk"), 1 << to)
        assert got[2] == want, f"\n{got[2].hex()}\n{want.hex()}"
    return expected


@cocotb.test()
async def answers_requests_for_buckets(dut):
    """Chunks are filled up to the last record that fits and follow each other without gaps, in sparse and crowded
    tables."""
    control = Control(dut, 2)
    await control.begin()
    chance = control.chance
    most = 0
    shapes = [(0, 8, None), (30, 8, None), (200, 1, None), (60, None, 6), (40, 1024, None), (200, 64, 9)]
    for turn, (slots, longest, crowded) in enumerate(shapes):
        control.full = chance.choice([0b1, 0b111, 0b10110100, 0xFF])
        control.node = chance.choice(model.members(control.full))
        control.committed = [chance.getrandbits(40) for _ in range(8)]
        if crowded is not None:
            control.node = model.leader(control.full, crowded)
        control.table = some_table(chance, 512, slots, longest, crowded)
        control.epoch = turn + 1
        position, rounds = 0, 0
        while position != model.END:
            chunks = await gives(control, 0, position)
            most = max(most, len(chunks))
            (position,) = struct.unpack(">I", chunks[-1][16:20])
            rounds += 1
        for position in (chance.randrange(512 * 32), 512 * 32 - 1, 512 * 32, 1 << 31):
            await gives(control, 0, position)
    assert most > 1


@cocotb.test()
async def looks_at_so_many_buckets_only(dut):
    """An answer ends after 1,024 buckets, whichever node leads them."""
    control = Control(dut, 3, rate=1.0, latency=1, mask=4095)
    await control.begin()
    control.full, control.node = 0b11, 1
    control.table = some_table(control.chance, 4096, 40, 8)
    position, positions = 5 * 32 + 7, []
    while position != model.END:
        chunks = await gives(control, 0, position)
        (position,) = struct.unpack(">I", chunks[-1][16:20])
        positions.append(position)
    assert positions == [(5 + 1024) * 32, (5 + 2048) * 32, (5 + 3072) * 32, model.END]


@cocotb.test()
async def answers_requests_for_sessions(dut):
    """A chunk holds at most three sessions; unused slots and the end of the sessions are distinguished."""
    control = Control(dut, 4, rate=1.0, latency=2)
    await control.begin()
    chance = control.chance
    for places in (0, 1, 3, 4, 60, 1023, 1024, 1025, 1100):
        used = 1.0 if places < 100 else 0.02
        control.sessions = [
            some_session(chance, at) if chance.random() < used or at == places - 1 else None for at in range(places)
        ]
        position = 0
        while position != model.END:
            chunks = await gives(control, 1, position)
            (position,) = struct.unpack(">I", chunks[-1][16:20])
        await gives(control, 1, places + 5)


@cocotb.test()
async def answers_fast(dut):
    """An answer of sixteen full chunks with small values takes a bounded time, at a memory latency of 60 cycles."""
    control = Control(dut, 5, rate=1.0, latency=15)
    await control.begin()
    control.full, control.node = 0b111, 0
    control.table = some_table(control.chance, 64, 1500, 64)
    chunks = await gives(control, 0, 0)
    assert len(chunks) == 16
    dut._log.info("an answer of 16 chunks: %d cycles", control.took)
    assert control.took < 3_000


# Ways in which a chunk may be wrong.
HARMS = ["stale", "lie", "wide", "short", "long", "length", "key", "padding", "status", "half"]


@cocotb.test()
async def joins_from_everyone(dut):
    """The joining node asks each full member in turn, then the first one for the sessions. It refuses chunks that
    are late, stale, malformed or contradictory."""
    control = Control(dut, 6, mask=255)
    await control.begin()
    chance = control.chance
    attempt = 0
    seen = collections.Counter()
    for full, node in ((0b0110, 0), (0b1, 7), (0b10101010, 2)):
        control.full, control.node, control.epoch = full, node, control.epoch + 1
        control.accepted = [100] * 8
        control.committed = [0] * 8
        source_tag = [10] * 8
        # Keys in the buckets that their hashes give, grouped by leader.
        tables = collections.defaultdict(dict)
        for _ in range(50):
            key = chance.getrandbits(64)
            bucket, way, _ = model.place(key, 255)
            slot = (chance.getrandbits(64), key, chance.randbytes(chance.choice([1, 8, 63, 64, 65, 200, 1024])))
            tables[model.leader(full, bucket)][bucket, way] = slot
        sessions = [some_session(chance, client) if client % 3 else None for client in range(9)]

        async def asked(sessions_too, source, cursor):
            nonlocal attempt
            attempt += 1
            request = model.state_request(control.epoch, attempt, sessions_too, cursor)
            assert await control.messages() == [(constant("KindStateRequest"), 1 << source, request)]

        answer = await control.command("TransferBegin")
        assert answer["asked"] and int(dut.joining_o.value) and not int(dut.complete_o.value)
        for step, source in enumerate([*model.members(full), model.members(full)[0]]):
            last_step = step == len(model.members(full))
            cursor = 0
            await asked(last_step, source, cursor)
            while cursor != model.END:
                assert int(dut.source_o.value) == source
                leads = lambda partition: model.leader(full, partition) == source  # noqa: B023, E731
                source_tag[source] = max(source_tag[source], control.committed[source]) + chance.randrange(3)
                if last_step:
                    chunks = model.answer_sessions(control.epoch, attempt, cursor, 5, sessions)
                else:
                    chunks = model.answer_buckets(
                        control.epoch, attempt, cursor, source_tag[source], tables[source], 255, leads
                    )
                if chance.random() < 0.3:
                    answer = await control.command("TransferAsk")
                    assert answer["asked"]
                    await asked(last_step, source, cursor)
                    # A late chunk.
                    answer = await control.command("TransferTake", chunks[0], take=1, **{"from": source})
                    assert not answer["asked"] and not answer["moved"] and answer["verdict"] == DONE
                    continue
                refused = False
                for payload in chunks:
                    begins, following = struct.unpack(">II", payload[12:20])
                    last = payload[9]

                    async def take(payload, sender=source, take=1):
                        events = control.events.copy()
                        answer = await control.command("TransferTake", payload, take=take, **{"from": sender})
                        await control.cycles(1)
                        return answer, control.events - events

                    # Chunks of other nodes must be ignored.
                    curious = chance.random() < 0.2 or not seen["taken"]
                    for sender in {(source + 1) % 8, 9} - {source} if curious else ():
                        answer, events = await take(payload, sender)
                        assert answer == {"verdict": DONE, "heard": 0, "asked": 0, "moved": 0}
                        assert dict(events) == ({} if full >> sender & 1 else {"dropped_wrong_role": 1})
                    answer, events = await take(payload, take=0)
                    assert answer == {"verdict": DONE, "heard": 0, "asked": 0, "moved": 0} and not events
                    for at, bit in ((7, 1), (8, 1), (15, 1)) if curious else ():
                        bent = bytearray(payload)
                        bent[at] ^= bit
                        answer, events = await take(bytes(bent))
                        assert not answer["asked"] and not answer["moved"] and not events
                        malformed = at == 15 and following <= begins ^ 1
                        assert answer["verdict"] == (MALFORMED if malformed else DONE)
                    no_chunks = (
                        payload[:31],
                        payload[:8],
                        payload[:8] + b"\x02" + payload[9:],
                        payload[:16] + payload[12:16] + payload[20:],
                    )
                    for bent in no_chunks if curious else ():
                        answer, events = await take(bent)
                        assert answer["verdict"] == MALFORMED and not answer["asked"] and not events
                    assert not control.applied and not control.recorded
                    possible = ["long"] + ["short"] * (len(payload) > 32)
                    if last_step:
                        possible += ["status", "half"]
                    else:
                        possible += ["lie", "wide"] + ["stale"] * (control.committed[source] > 0)
                        possible += ["length"] * (len(payload) > 32)
                        possible += ["key"] * (len(payload) > 32 and full & full - 1 > 0)
                        possible += ["padding"] * (len(payload) > 32 and payload[41] % 8 > 0)
                    rarest = min(possible, key=seen.__getitem__)
                    harm = chance.choice(["none", "none", chance.choice(possible), rarest])
                    if harm != "none":
                        tag = {"stale": control.committed[source] - 1, "lie": 101, "wide": (1 << 40) + 10}.get(harm)
                        bent = payload if tag is None else payload[:24] + struct.pack(">Q", tag) + payload[32:]
                        if harm == "short":
                            bent = payload[: len(payload) - chance.choice([1, 8, 16])]
                        elif harm == "long":
                            bent = payload + bytes(chance.choice([1, 8, 16, 24]))
                        elif harm == "status":
                            bent = payload[:56] + b"\x04" + payload[57:]
                        elif harm == "length":
                            bent = payload[:40] + struct.pack(">H", chance.choice([0, 1025])) + payload[42:]
                        elif harm == "padding":
                            (length,) = struct.unpack(">H", payload[40:42])
                            bent = bytearray(payload)
                            bent[56 + chance.randrange(length, length + -length % 8)] = 1
                            bent = bytes(bent)
                        elif harm == "half":
                            bent = payload + payload[32:40]
                        elif harm == "key":
                            # A key of another leader.
                            key = next(key for key in range(1 << 10) if not leads(model.place(key, 255)[0]))
                            bent = payload[:48] + struct.pack(">Q", key) + payload[56:]
                        answer, events = await take(bent)
                        lies = {"stale": "chunks_stale", "lie": "dropped_contradiction"}
                        lies["wide"] = lies["lie"]
                        assert dict(events) == {lies.get(harm, "dropped_malformed"): 1}, (harm, events)
                        assert answer["asked"] and not answer["moved"], harm
                        assert not control.applied and not control.recorded and not control.commits
                        await asked(last_step, source, cursor)
                        seen[harm] += 1
                        refused = True
                        break
                    # The unchanged chunk is accepted.
                    behind = control.committed[source]
                    answer, events = await take(payload)
                    assert dict(events) == {"chunks_installed": 1} and answer["moved"]
                    records = payload[32:]
                    if last_step:
                        expected = []
                        for at in range(0, len(records), model.SESSION_BYTES):
                            words = struct.unpack(">49Q", records[at : at + model.SESSION_BYTES])
                            expected += [
                                (words[0], *words[place : place + 2], words[place + 2] >> 56)
                                for place in range(1, 49, 3)
                                if words[place]
                            ]
                        assert control.recorded == expected
                        control.recorded.clear()
                        assert not control.commits
                    else:
                        expected = []
                        while records:
                            version, length, key = struct.unpack(">QH6xQ", records[:24])
                            expected.append((version, key, records[24 : 24 + length], model.place(key, 255)))
                            records = records[24 + length + -length % 8 :]
                        assert control.installed() == expected
                        tag = source_tag[source]
                        assert control.commits == ([(source, tag, 0)] if tag > behind else [])
                        control.commits.clear()
                        seen["slots"] += len(expected)
                    cursor = following
                    seen["taken"] += 1
                    complete = last_step and cursor == model.END
                    assert answer["asked"] == (not complete and last == 1)
                    if cursor == model.END:
                        break
                    if last:
                        await asked(last_step, source, cursor)
                if refused:
                    continue
        assert int(dut.complete_o.value) and not int(dut.joining_o.value)
        answer = await control.command("TransferAsk")
        assert not answer["asked"]
        answer = await control.command("TransferTake", chunks[0], take=1, **{"from": source})
        assert not answer["asked"] and not answer["moved"]
        assert await control.messages() == []
    await control.command("TransferStop")
    assert not int(dut.complete_o.value)
    await control.command("TransferStop", take=1)
    control.full, attempt = 0b100, 0
    await control.command("TransferBegin")
    await asked(0, 2, 0)
    dut._log.info("%s", dict(seen))
    assert all(seen[what] for what in [*HARMS, "taken", "slots"]), seen


def test_kv_control():
    bench.run(
        "kv_control",
        [
            "weft_pkg.sv",
            "engines/engines_pkg.sv",
            "engines/kv/kv_pkg.sv",
            "engines/kv/kv_messages_pkg.sv",
            "stream/ram.sv",
            "stream/fifo.sv",
            "engines/kv/kv_beats_to_words.sv",
            "engines/kv/kv_message_buffer.sv",
            "engines/kv/kv_view_change.sv",
            "engines/kv/kv_transfer_join.sv",
            "engines/kv/kv_transfer_donate.sv",
            "engines/kv/kv_control.sv",
        ],
        __file__,
    )
