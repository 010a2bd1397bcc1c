"""kv_committer: every committed entry has its effects once and in order, as in `Kv::commit_to` of
crates/engines/kv."""

import collections

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly

import bench
from streams import Bench
from structs import constant, pack, unpack, width

STREAMS, MODULO = 8, 512
PUT, DELETE, COMPARE_AND_SET = 2, 3, 4
OK, NOT_FOUND, MISMATCH, TABLE_FULL, NOT_SERVING = 0, 1, 2, 3, 6
ASKER = {"caller": {"kind": 1, "mac": 0, "address": 0, "port": 0}, "client": 0, "request": 0}


def asker(chance):
    caller = {"kind": chance.randrange(3), "mac": chance.getrandbits(48), "address": chance.getrandbits(32), "port": 7}
    return {"caller": caller, "client": chance.getrandbits(64), "request": chance.getrandbits(64)}


def entry(chance, led):
    operation = chance.choice((PUT, PUT, PUT, DELETE, COMPARE_AND_SET))
    status = chance.choice((OK, OK, OK, NOT_FOUND, MISMATCH, TABLE_FULL))
    writes = status == OK and operation != DELETE
    return {
        "operation": operation, "status": status, "led": int(led), "asker": asker(chance), "version": chance.getrandbits(64),
        "key": chance.getrandbits(64), "place": {"bucket": chance.randrange(64), "way": 3, "tag": 5},
        "value_bytes": chance.choice((1, 64, 65, 1024)) if writes else 0, "reserved": chance.randrange(2),
    }


def reply(asked, status, version, view, value_bytes=0):
    """The outgoing_t of a reply."""
    text = bytes([status, 0]) + value_bytes.to_bytes(2, "big") + view["epoch"].to_bytes(4, "big")
    text += b"".join(word.to_bytes(8, "big") for word in (asked["client"], asked["request"], version))
    text += view["full"].to_bytes(2, "big") + bytes(6)
    return {"caller": asked["caller"], "header": text, "value_bytes": value_bytes}


class Commit:
    """Models of the blocks around kv_committer; records, for each stream, what each of them received."""

    def __init__(self, dut, seed, rate=1.0):
        self.bench, self.dut, self.chance, self.rate = Bench(dut, seed), dut, Bench(dut, seed).chance, rate
        self.entries = {}  # (stream, number) -> entry
        self.readers = collections.defaultdict(list)
        self.committed = [0] * STREAMS
        self.told = {name: [] for name in ("sessions", "outgoing", "applies", "values")}
        self.order = []  # effects, in the order in which they occur
        self.number_of = {}

    async def start(self, **inputs):
        defaults = {
            "committed_i": 0, "restart_i": 0, "epoch_i": 9, "full_i": 0x0305, "serves_i": 1, "read_done_i": 0, "take_done_i": 0,
        }
        self.view = {**defaults, **inputs}
        await self.bench.start(**self.view)
        self.view = {"epoch": self.view["epoch_i"], "full": self.view["full_i"]}
        cocotb.start_soon(self._window())
        cocotb.start_soon(self._takes())
        for prefix in ("session", "outgoing", "apply", "value_read"):
            cocotb.start_soon(self._take(prefix))

    def commit(self, stream, to):
        self.committed[stream] = to
        self.dut.committed_i.value = sum(length << 40 * index for index, length in enumerate(self.committed))

    async def _window(self):
        """Reads of entries take 2 cycles; the data is stable until the next read."""
        dut, due = self.dut, None
        while True:
            dut.read_ready_i.value = int(self.chance.random() < self.rate)
            dut.read_done_i.value = 0
            if due is not None:
                due -= 1
                if due == 0:
                    dut.read_done_i.value, dut.read_i.value, due = 1, pack("entry_t", **self.entries[self.at]), None
            await ReadOnly()
            if int(dut.read_valid_o.value) and int(dut.read_ready_i.value):
                stream = int(dut.read_stream_o.value)
                number = next(n for s, n in self.entries if s == stream and n % MODULO == int(dut.read_number_o.value) % MODULO)
                assert number <= self.committed[stream]
                self.at, due = (stream, number), 2
                self.reads = self.readers.pop(self.at, [])
                self.had = len(self.reads)
            await FallingEdge(dut.clk_i)

    async def _takes(self):
        dut = self.dut
        while True:
            dut.take_ready_i.value = int(self.chance.random() < self.rate)
            dut.take_done_i.value = 0
            await ReadOnly()
            if int(dut.take_valid_o.value) and int(dut.take_ready_i.value):
                assert (int(dut.take_stream_o.value), int(dut.take_number_o.value)) == (self.at[0], self.at[1] % MODULO)
                await FallingEdge(dut.clk_i)
                dut.take_ready_i.value = 0
                await FallingEdge(dut.clk_i)
                dut.take_done_i.value, dut.take_some_i.value = 1, int(bool(self.reads))
                if self.reads:
                    dut.take_i.value = pack("asker_t", **self.reads.pop())
            await FallingEdge(dut.clk_i)

    async def _take(self, prefix):
        dut = self.dut
        valid, ready = getattr(dut, f"{prefix}_valid_o"), getattr(dut, f"{prefix}_ready_i")
        held = None
        while True:
            ready.value = int(self.chance.random() < self.rate)
            await ReadOnly()
            if prefix == "value_read":
                item = tuple(int(getattr(dut, f"value_read_{name}_o").value) for name in ("stream", "place", "beats"))
            else:
                item = int(getattr(dut, f"{prefix}_o").value)
            if int(valid.value):
                assert held is None or held == item
                held = item
                if int(ready.value):
                    self.order.append((self.at, prefix, item))
                    held = None
            else:
                assert held is None
            await FallingEdge(dut.clk_i)

    def expect(self, at, readers, serves=True):
        """The expected effects of an entry: the items for each block, in order."""
        one, (stream, number) = self.entries[at], at
        place = (number - 1) % 256
        changes = one["status"] == OK
        deletes = one["operation"] == DELETE
        session = {"client": one["asker"]["client"], "request": one["asker"]["request"], "status": one["status"], "version": one["version"]}
        answers = []
        if one["led"]:
            answers.append(reply(one["asker"], one["status"], one["version"], self.view))
        for read in reversed(readers):
            if not serves:
                answers.append(reply(read, NOT_SERVING, 0, self.view))
            elif deletes:
                answers.append(reply(read, NOT_FOUND, 0, self.view))
            else:
                answers.append(reply(read, OK, one["version"], self.view, one["value_bytes"]))
        apply = {"key": one["key"], "place": one["place"], "reserved": one["reserved"], "counts": 1, "stream": stream}
        if changes:
            apply |= {"deletes": int(deletes), "newer_only": 0, "version": one["version"], "value_bytes": one["value_bytes"]}
        else:
            apply |= {"deletes": 1, "newer_only": 1, "version": 0, "value_bytes": 0}
        values = [(stream, place, -(-one["value_bytes"] // 64))] if apply["value_bytes"] else []
        return session, answers, apply, values, (stream, place)

    def check(self, at, expected):
        """Compares the actual effects of an entry with the expected ones, and checks that its apply comes after
        all reads of its value."""
        session, answers, apply, values, where = expected
        mine = [(prefix, item) for which, prefix, item in self.order if which == at]
        sessions = [unpack("session_request_t", item) for prefix, item in mine if prefix == "session"]
        assert [one["command"] for one in sessions] == [constant("SessionRecord")]
        assert all(sessions[0][name] == value for name, value in session.items()), at
        got = [unpack("outgoing_t", item) for prefix, item in mine if prefix == "outgoing"]
        assert len(got) == len(answers), at
        for one, answer in zip(got, answers, strict=True):
            text = one["header"].to_bytes(64, "little")
            assert (one["reply"], one["message"], one["header_bytes"], text[40:]) == (1, 2, 40, bytes(24))
            assert text[:40] == answer["header"] and one["caller"] == answer["caller"], at
            assert one["value_bytes"] == answer["value_bytes"]
            if answer["value_bytes"]:
                assert one["source"] == constant("ValueWindow") and (one["stream"], one["place"]) == where
        assert [unpack("apply_t", item) for prefix, item in mine if prefix == "apply"] == [apply], at
        assert [item for prefix, item in mine if prefix == "value_read"] == values
        order = [prefix for prefix, _ in mine]
        if any(answer["value_bytes"] for answer in answers):
            assert order.index("apply") > len(order) - 1 - order[::-1].index("outgoing")

    async def done(self, limit=20_000):
        for _ in range(limit):
            await FallingEdge(self.dut.clk_i)
            await ReadOnly()
            if int(self.dut.idle_o.value):
                await FallingEdge(self.dut.clk_i)
                return
        raise AssertionError("never idle")


async def run(dut, seed, rate, serves=1):
    commit = Commit(dut, seed, rate)
    await commit.start(serves_i=serves)
    chance, numbers, expected = commit.chance, [0] * STREAMS, {}
    for _ in range(80):
        stream = chance.choice((0, 0, 1, 5, 7))
        for _ in range(chance.choice((1, 1, 2, 9))):
            numbers[stream] += 1
            at = stream, numbers[stream]
            one = commit.entries[at] = entry(chance, led=stream == 0)
            readers = []
            if stream != 0 and one["status"] == OK:
                readers = [asker(chance) for _ in range(chance.choice((0, 0, 0, 1, 2, 4)))]
            commit.readers[at] = list(readers)
            expected[at] = commit.expect(at, readers, bool(serves))
        commit.commit(stream, numbers[stream])
        await commit.bench.cycles(chance.choice((0, 3, 20, 60)))
    await commit.done()
    reads = applied = 0
    for at, one in expected.items():
        commit.check(at, one)
        applied += commit.entries[at]["status"] == OK
        reads += len(one[1]) - commit.entries[at]["led"]
    for stream in range(STREAMS):
        order = list(dict.fromkeys(number for (which, number), _, _ in commit.order if which == stream))
        assert order == list(range(1, numbers[stream] + 1))
        assert int(dut.reached_o.value) >> 9 * stream & 511 == numbers[stream] % MODULO
    await commit.bench.cycles(2)
    assert commit.bench.events == {"entries_applied": applied, "reads": reads, "reads_waited": reads}
    return commit


@cocotb.test(timeout_time=200, timeout_unit="us")
@cocotb.parametrize(rate=[1.0, 0.5, 0.2])
async def every_entry_has_its_effects(dut, rate):
    await run(dut, int(10 * rate), rate)


@cocotb.test(timeout_time=200, timeout_unit="us")
async def reads_are_refused_by_a_node_that_may_not_serve(dut):
    await run(dut, 4, 0.7, serves=0)


@cocotb.test(timeout_time=200, timeout_unit="us")
async def an_answer_stays_as_it_was_offered(dut):
    commit = Commit(dut, 11, 0.3)
    await commit.start()
    for number in range(1, 60):
        commit.entries[1, number] = {**entry(commit.chance, False), "status": OK, "operation": PUT, "value_bytes": 64}
        commit.readers[1, number] = [asker(commit.chance)]
    commit.commit(1, 59)
    await commit.bench.cycles(1)
    while not int(dut.idle_o.value):
        dut.serves_i.value = commit.chance.randrange(2)
        await commit.bench.cycles(1)
    statuses = collections.Counter(
        (unpack("outgoing_t", item)["header"] & 255, unpack("outgoing_t", item)["value_bytes"])
        for _, prefix, item in commit.order if prefix == "outgoing"
    )
    assert statuses.keys() == {(OK, 64), (NOT_SERVING, 0)} and statuses.total() == 59


@cocotb.test(timeout_time=200, timeout_unit="us")
async def numbers_go_round_and_streams_begin_anew(dut):
    commit = Commit(dut, 8)
    await commit.start()
    for epoch in range(2):
        for number in range(1, 600):
            commit.entries = {(3, number): {**entry(commit.chance, True), "status": OK, "operation": DELETE, "value_bytes": 0}}
            commit.commit(3, number)
            await commit.done()
        assert len(commit.order) == 3 * 599 * (epoch + 1)
        dut.restart_i.value = 1
        await commit.bench.cycles(1)
        dut.restart_i.value = 0
        commit.commit(3, 0)
        await commit.bench.cycles(3)
        assert int(dut.idle_o.value) and int(dut.reached_o.value) == 0


@cocotb.test(timeout_time=200, timeout_unit="us")
async def two_cycles_to_the_answer_and_three_an_entry(dut):
    commit = Commit(dut, 9)
    await commit.start()
    for number in range(1, 11):
        commit.entries[0, number] = {**entry(commit.chance, True), "status": OK, "operation": PUT, "value_bytes": 1024}
    times = []
    commit.commit(0, 10)
    for cycle in range(40):
        await ReadOnly()
        if int(dut.outgoing_valid_o.value) and int(dut.outgoing_ready_i.value):
            times.append(cycle)
        await FallingEdge(dut.clk_i)
    assert times == list(range(2, 32, 3)), times


@cocotb.test(timeout_time=200, timeout_unit="us")
async def streams_take_turns(dut):
    commit = Commit(dut, 10)
    await commit.start()
    for stream in (0, 2, 6):
        for number in range(1, 6):
            commit.entries[stream, number] = entry(commit.chance, True)
    for stream in (0, 2, 6):
        commit.commit(stream, 5)
    await commit.done()
    order = list(dict.fromkeys(at for at, _, _ in commit.order))
    assert len(order) == 15
    assert all({at[0] for at in order[i : i + 3]} == {0, 2, 6} for i in range(0, 15, 3))


def test_kv_committer():
    assert width("window_count_t") == 9
    bench.run(
        "kv_committer",
        ["weft_pkg.sv", "engines/engines_pkg.sv", "engines/kv/kv_pkg.sv", "engines/kv/kv_messages_pkg.sv",
         "engines/kv/kv_committer.sv"],
        __file__,
    )
