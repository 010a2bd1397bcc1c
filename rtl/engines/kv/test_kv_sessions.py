"""kv_sessions against a model of crates/engines/kv/src/session.rs, with few places and with clients that collide
in the map."""

import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly

import bench
from structs import constant, pack, unpack

LIMIT, CAPACITY, IDLE = 4, 16, 1000
WORD = (1 << 64) - 1
BEGIN, RECORD, CANCEL, EXPORT, CLEAR = (
    constant(f"Session{name}") for name in ("Begin", "Record", "Cancel", "Export", "Clear")
)
ADMITTED, NO_ROOM, REFUSED, RECORDED, IGNORED = (
    constant(f"Seen{name}") for name in ("Admitted", "NoRoom", "Refused", "Recorded", "Ignored")
)
USED, UNUSED, END = (constant(f"Session{name}") for name in ("Used", "Unused", "End"))
ROUNDS = [
    (0x243F6A8885A308D3, (2, 24, 27, 11)),
    (0x13198A2E03707344, (60, 10, 17, 5)),
    (0xA4093822299F31D0, (22, 20, 53, 39)),
    (0x082EFA98EC4E6C89, (38, 1, 39, 44)),
]


def rotate(word, by):
    return (word << by | word >> (64 - by)) & WORD


def mix(x):
    for const, (a, b, d, e) in ROUNDS:
        x ^= const
        x ^= rotate(x, a) ^ rotate(x, b)
        x ^= rotate(x, d) & ~rotate(x, e)
    return x & WORD


class Session:
    def __init__(self):
        self.active = 0
        self.records = [(0, 0, 0)] * 16  # request, version, status
        self.pending = [0] * 16


class Model:
    """The sessions, from the one that has been idle longest to the most recent."""

    def __init__(self):
        self.sessions = {}
        self.early = 0

    def touch(self, client, now):
        session = self.sessions.pop(client, None) or Session()
        session.active = now
        self.sessions[client] = session
        return session

    def begin(self, now, client, request, room):
        if client in self.sessions:
            session = self.sessions[client]
            latest, version, status = session.records[request % 16]
            if latest == request:
                return RECORDED, status, version
            if latest > request or session.pending[request % 16] >= request:
                return IGNORED, None, None
        if not room:
            return NO_ROOM, None, None
        if client not in self.sessions:
            while len(self.sessions) >= LIMIT:
                oldest = next(iter(self.sessions))
                if any(self.sessions[oldest].pending) or now - self.sessions[oldest].active <= IDLE:
                    return REFUSED, None, None
                del self.sessions[oldest]
        self.touch(client, now).pending[request % 16] = request
        return ADMITTED, None, None

    def cancel(self, client, request):
        if client in self.sessions:
            pending = self.sessions[client].pending
            if pending[request % 16] == request:
                pending[request % 16] = 0

    def record(self, now, client, request, status, version):
        if client not in self.sessions and len(self.sessions) == CAPACITY:
            del self.sessions[next(c for c, session in self.sessions.items() if not any(session.pending))]
            self.early += 1
        session = self.touch(client, now)
        self.cancel(client, request)
        if session.records[request % 16][0] < request:
            session.records[request % 16] = (request, version, status)

    def must_not_record(self, client):
        """Recording needs a session without pending requests to evict. Real windows are smaller than the table, so
        there always is one; the test must not record otherwise."""
        full = len(self.sessions) == CAPACITY and client not in self.sessions
        return full and all(any(session.pending) for session in self.sessions.values())

    def words(self, client):
        out = [client]
        for request, version, status in self.sessions[client].records:
            out += [request, version, status << 56]
        return out


class Bench:
    def __init__(self, dut, seed):
        self.dut = dut
        self.chance = random.Random(seed)
        self.now = 5
        self.early = 0
        self.cycle = 0
        self.answers = []  # (cycle, verdict, status, version)
        self.words = []  # (word, last)
        self.word_rate = 1.0

    async def start(self):
        dut = self.dut
        cocotb.start_soon(Clock(dut.clk_i, 4, unit="ns").start())
        dut.rst_ni.value = 0
        dut.request_valid_i.value = 0
        dut.word_ready_i.value = 0
        dut.now_i.value = self.now
        for _ in range(3):
            await FallingEdge(dut.clk_i)
        dut.rst_ni.value = 1
        await self.drain()

    async def step(self, request=None):
        """Runs one cycle. Returns whether the request was accepted."""
        dut = self.dut
        await FallingEdge(dut.clk_i)
        self.cycle += 1
        dut.now_i.value = self.now
        dut.request_valid_i.value = int(request is not None)
        if request is not None:
            dut.request_i.value = request
        dut.word_ready_i.value = int(self.chance.random() < self.word_rate)
        await ReadOnly()
        if int(dut.answer_valid_o.value):
            answer = unpack("session_answer_t", dut.answer_o.value)
            self.answers.append((self.cycle, answer["verdict"], answer["status"], answer["version"]))
        if int(dut.word_valid_o.value) and int(dut.word_ready_i.value):
            self.words.append((int(dut.word_o.value), int(dut.word_last_o.value)))
        self.early += int(dut.evicted_early_o.value)
        return request is not None and bool(int(dut.request_ready_o.value))

    async def put(self, command, **fields):
        request = pack("session_request_t", command=command, **fields)
        while not await self.step(request):
            pass
        return self.cycle

    async def drain(self):
        for _ in range(3000):
            await self.step()
            if int(self.dut.idle_o.value):
                return
        raise AssertionError("not idle")

    async def ask(self, command, **fields):
        """Sends a request. Returns the answer and its latency in cycles."""
        begun = await self.put(command, **fields)
        await self.drain()
        cycle, *answer = self.answers.pop()
        return (*answer, cycle - begun)

    def pop(self, model_answer):
        """Compares the next answer with the model's; None means that the answer only confirms completion."""
        _, verdict, status, version = self.answers.pop(0)
        if model_answer is None:
            return
        assert verdict == model_answer[0], (verdict, model_answer)
        if verdict == RECORDED:
            assert (status, version) == model_answer[1:]

    def take_words(self):
        taken, self.words = self.words[:49], self.words[49:]
        assert [last for _, last in taken] == [0] * 48 + [1]
        return [word for word, _ in taken]


@cocotb.test()
async def a_request_is_fresh_pending_recorded_and_superseded(dut):
    bench_ = Bench(dut, 0)
    await bench_.start()
    ask = bench_.ask
    assert (await ask(BEGIN, client=9, request=3))[0] == NO_ROOM
    assert (await ask(BEGIN, client=9, request=3, room=1))[0] == ADMITTED
    assert (await ask(BEGIN, client=9, request=3, room=1))[0] == IGNORED
    await ask(RECORD, client=9, request=3, status=2, version=77)
    assert (await ask(BEGIN, client=9, request=3, room=1)) == (RECORDED, 2, 77, 5)
    assert (await ask(BEGIN, client=9, request=19))[0] == NO_ROOM
    await ask(RECORD, client=9, request=19, status=0, version=80)
    assert (await ask(BEGIN, client=9, request=3, room=1))[0] == IGNORED
    await ask(RECORD, client=9, request=3, status=2, version=77)
    assert (await ask(BEGIN, client=9, request=19, room=1))[:3] == (RECORDED, 0, 80)
    # A record is kept while a later request of the same slot is only pending.
    assert (await ask(BEGIN, client=9, request=35, room=1))[0] == ADMITTED
    assert (await ask(BEGIN, client=9, request=19, room=1))[:3] == (RECORDED, 0, 80)
    await ask(CANCEL, client=9, request=35)
    assert (await ask(BEGIN, client=9, request=35))[0] == NO_ROOM
    await ask(CLEAR)
    assert (await ask(BEGIN, client=9, request=19))[0] == NO_ROOM
    assert (await ask(EXPORT, index=0))[0] == END


@cocotb.test()
async def only_idle_clients_make_room(dut):
    bench_ = Bench(dut, 0)
    await bench_.start()
    for client in range(LIMIT):
        assert (await bench_.ask(BEGIN, client=client, request=1, room=1))[0] == ADMITTED
        await bench_.ask(RECORD, client=client, request=1, status=0, version=1)
    bench_.now += IDLE
    assert (await bench_.ask(BEGIN, client=50, request=1, room=1))[0] == REFUSED
    await bench_.ask(RECORD, client=0, request=2, status=0, version=2)
    bench_.now += 1
    verdict, *_, latency = await bench_.ask(BEGIN, client=50, request=1, room=1)
    assert verdict == ADMITTED
    assert latency < 40
    assert (await bench_.ask(BEGIN, client=1, request=1))[0] == NO_ROOM, "1 was forgotten"
    assert (await bench_.ask(BEGIN, client=0, request=1))[0] == RECORDED
    # The next candidate is client 2; with a pending request it is kept.
    assert (await bench_.ask(BEGIN, client=2, request=2, room=1))[0] == ADMITTED
    assert (await bench_.ask(BEGIN, client=3, request=2, room=1))[0] == ADMITTED
    bench_.now += 5 * IDLE
    await bench_.ask(RECORD, client=0, request=3, status=0, version=2)
    assert (await bench_.ask(BEGIN, client=51, request=1, room=1))[0] == REFUSED


@cocotb.test()
async def room_is_made_for_all_that_are_too_many(dut):
    """Records are never refused, so there may be more clients than the limit of admissions."""
    bench_ = Bench(dut, 0)
    await bench_.start()
    for client in range(CAPACITY + 3):
        await bench_.ask(RECORD, client=client, request=1, status=0, version=client)
    assert bench_.early == 3
    assert (await bench_.ask(BEGIN, client=100, request=1, room=1))[0] == REFUSED
    bench_.now += IDLE + 1
    await bench_.ask(RECORD, client=3, request=2, status=0, version=1)
    assert (await bench_.ask(BEGIN, client=100, request=1, room=1))[0] == ADMITTED
    verdicts = [(await bench_.ask(EXPORT, index=index))[0] for index in range(CAPACITY + 1)]
    assert sorted(verdicts) == [USED] * LIMIT + [UNUSED] * (CAPACITY - LIMIT) + [END]
    clients = {bench_.take_words()[0] for _ in range(LIMIT)}
    assert clients == {3, 17, 18, 100}
    for client in range(200, 200 + CAPACITY):
        await bench_.ask(RECORD, client=client, request=1, status=0, version=client)
    assert bench_.early == 3 + LIMIT


@cocotb.test()
async def answers_come_in_time(dut):
    bench_ = Bench(dut, 0)
    await bench_.start()
    assert (await bench_.ask(BEGIN, client=1, request=1, room=1))[3] == 5
    assert (await bench_.ask(BEGIN, client=1, request=2, room=1))[3] == 5
    assert (await bench_.ask(RECORD, client=1, request=2, room=1))[3] == 5
    begun = await bench_.put(BEGIN, client=1, request=3, room=1)
    for request in range(4, 12):
        await bench_.put(BEGIN, client=1, request=request, room=1)
    await bench_.drain()
    assert bench_.answers[-1][0] - begun <= 5 + 4 * 8, "one every 4 cycles"


async def stress(dut, seed, clients, steps):
    bench_ = Bench(dut, seed)
    await bench_.start()
    chance = bench_.chance
    model = Model()
    expected = []

    async def settle():
        await bench_.drain()
        for answer in expected:
            bench_.pop(answer)
        expected.clear()
        assert bench_.early == model.early
        assert not bench_.answers
        assert not bench_.words

    seen = set()
    for step in range(steps):
        if step % 50 == 0:
            bench_.word_rate = chance.choice((0.2, 1.0))
            pace = chance.choice((0.1, 0.9, 1.0))
            busy = chance.choice((0.2, 0.7))
        if chance.random() < 0.08:
            await settle()
            bench_.now += chance.choice((1, IDLE // 4, IDLE, IDLE + 1, 3 * IDLE))
        while chance.random() >= pace:
            await bench_.step()
        client = chance.choice(clients)
        # Few numbers for each slot, some of them far apart.
        request = chance.choice((1, 2, 16, 17, 31)) + chance.choice((0, 0, 0, 16, 1 << 32, 1 << 63))
        kind = chance.random()
        if chance.random() < 0.4:
            pending = [(c, r) for c, session in model.sessions.items() for r in session.pending if r]
            client, request = chance.choice(pending or [(client, request)])
        if kind < 0.005:
            await bench_.put(CLEAR)
            model.sessions.clear()
            expected.append(None)
        elif kind < 0.05:
            index = chance.randrange(CAPACITY + 2)
            await settle()
            await bench_.put(EXPORT, index=index)
            await bench_.drain()
            verdict = bench_.answers.pop()[1]
            seen.add(verdict)
            if verdict == USED:
                assert bench_.take_words() in [model.words(client) for client in model.sessions]
            assert index < CAPACITY or verdict == END
        elif kind < 0.05 + 0.6 * busy:
            room = int(chance.random() < 0.8)
            await bench_.put(BEGIN, client=client, request=request, room=room)
            expected.append(model.begin(bench_.now, client, request, room))
            seen.add(expected[-1][0])
        elif kind < 0.85 and not model.must_not_record(client):
            status, version = chance.randrange(9), chance.randrange(1 << 64)
            await bench_.put(RECORD, client=client, request=request, status=status, version=version)
            model.record(bench_.now, client, request, status, version)
            expected.append(None)
        else:
            await bench_.put(CANCEL, client=client, request=request)
            model.cancel(client, request)
            expected.append(None)
    await settle()
    # Exports all places at the end.
    words = []
    for index in range(CAPACITY + 1):
        verdict = (await bench_.ask(EXPORT, index=index))[0]
        if verdict == END:
            break
        if verdict == USED:
            words.append(bench_.take_words())
    assert verdict == END
    assert sorted(words) == sorted(model.words(client) for client in model.sessions)
    return seen, model.early


@cocotb.test()
async def many_clients_agree_with_the_model(dut):
    seen, early = await stress(dut, 1, [mix(client) for client in range(40)], 3000)
    assert seen >= {ADMITTED, NO_ROOM, REFUSED, RECORDED, IGNORED, USED, END}
    assert early > 10


@cocotb.test()
async def few_clients_agree_with_the_model(dut):
    seen, _ = await stress(dut, 2, [1, 2, 3, 1 << 63, (1 << 64) - 1, 6], 2000)
    assert seen >= {ADMITTED, NO_ROOM, REFUSED, RECORDED, IGNORED, USED, END}


@cocotb.test()
async def clients_that_collide_agree_with_the_model(dut):
    """All clients have one of four home indices around the end of the map."""
    homes = {2 * CAPACITY - 2, 2 * CAPACITY - 1, 0, 1}
    clients = [client for client in range(400) if mix(client) % (2 * CAPACITY) in homes]
    assert len(clients) > 2 * CAPACITY
    _, early = await stress(dut, 3, clients, 3000)
    assert early > 10


def test_kv_sessions():
    assert mix(0) == 0x5F308FD5DA79E7D3
    bench.run(
        "kv_sessions",
        [
            "weft_pkg.sv",
            "engines/engines_pkg.sv",
            "engines/kv/kv_pkg.sv",
            "stream/ram.sv",
            "engines/kv/kv_deep_ram.sv",
            "engines/kv/kv_session_order.sv",
            "engines/kv/kv_sessions.sv",
        ],
        __file__,
        parameters={"Limit": LIMIT, "Capacity": CAPACITY, "Idle": IDLE},
    )
