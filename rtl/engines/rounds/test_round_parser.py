"""round_parser: every event becomes the operation that crates/engines/rounds/src/message.rs parses, or is refused."""

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly, ReadWrite

import bench
import round_messages as messages
from streams import Bench, beats
from structs import constant, pack, unpack

PROPOSAL_BYTES = 448
HEAD_BYTES = 64
WORD = (1 << 64) - 1
ROUND = "RoundsOpRound"


def parse(event, data, now):
    """The fields of the expected operation that must match, and its proposal; None if there is no operation.

    `now` is (current round, next round).
    """
    kind = event["kind"]
    if kind != "EventDeliver":
        if kind == "EventDone" or (kind == "EventTimer" and event["tag"]):
            return None
        operation = dict(kind=kind.replace("Event", "RoundsOp"))
        if kind == "EventCall":
            operation |= dict(caller=event["caller"], call=event["message"], fits=int(0 < len(data) <= PROPOSAL_BYTES),
                              empty=int(not data))
        return operation, data
    operation = {"from": event["from"]}
    message, first = event["message"], int.from_bytes(data[:8], "big")
    age = now[0] - first & WORD
    aged = dict(recent=int(age < 16), behind=age % 16)
    if event["from"] >= 8:
        return None
    if message in (messages.START, messages.JOIN):
        return operation | dict(kind="RoundsOpStart" if message == messages.START else "RoundsOpJoin"), b""
    if message == messages.FETCH and len(data) == 16:
        return operation | aged | dict(kind="RoundsOpFetch", wanted=data[8]), b""
    if len(data) < HEAD_BYTES:
        return None
    proposal = data[HEAD_BYTES:]
    if message == messages.ROUND:
        change, length = data[11] & 1, int.from_bytes(data[12:14], "big")
        operation |= dict(kind=ROUND, current=int(first == now[0]), following=int(first == now[1]), late=int(first < now[1]),
                          area=messages.number_of(data[16:]) % (1 << 384), first=messages.number_of(data[:16]))
        good = data[14] == messages.CONSENSUS and first < 1 << 62
    elif message == messages.VALUE:
        change, length = data[9] & 1, int.from_bytes(data[10:12], "big")
        operation |= aged | dict(kind="RoundsOpValue", proposer=data[8])
        good = data[8] < 8
    else:
        return None
    if not good or length != len(proposal) or length > PROPOSAL_BYTES or (change and length != 8):
        return None
    return operation | dict(change=change, bytes=length), proposal


def shown(operation, expected):
    """The fields of an operation that correspond to the expected ones."""
    head = pack("round_head_t", **operation["head"])
    named = dict(operation, kind=next(name for name in KINDS if constant(name) == operation["kind"]),
                 first=head, proposer=head >> 64 & 255, wanted=head >> 64 & 255)
    return {name: named[name] for name in expected}


KINDS = [f"RoundsOp{name}" for name in "Reset Configure Timer Round Fetch Value Start Join Call".split()]


class Taker(Bench):
    """Plays the consumer of operations: an operation may have to wait before it runs, and may take several cycles
    then."""

    def __init__(self, dut, seed, patience=0):
        super().__init__(dut, seed)
        self.patience = patience
        self.wait = 0  # cycles until the current operation may run
        self.rounds = (5, 6)
        self.taken = []  # (cycle, operation, its beats by index)
        self.refused = []
        self.fresh = 0
        self.cycle = 0

    async def begin(self):
        dut = self.dut
        for name in ("event_i", "payload_i", "op_ready_i", "op_follows_i", "op_may_run_i"):
            getattr(dut, name).value = 0
        self.tell_rounds()
        await self.start()
        cocotb.start_soon(self.run())

    def tell_rounds(self):
        self.dut.round_i.value, self.dut.next_round_i.value = self.rounds

    async def run(self):
        dut, beats_of = self.dut, {}
        while True:
            runs = self.wait <= 0
            ready = runs and (not self.patience or self.chance.random() < 0.6)
            dut.op_may_run_i.value, dut.op_ready_i.value, dut.op_follows_i.value = runs, ready, 0
            await ReadWrite()
            takes = ready and int(dut.op_valid_o.value)
            operation = unpack("rounds_op_t", dut.op_o.value) if takes else None
            dut.op_follows_i.value = int(takes and operation["kind"] == constant(ROUND))
            await ReadOnly()
            self.fresh += int(dut.op_fresh_o.value)
            if int(dut.malformed_o.value):
                self.refused.append((int(dut.malformed_round_o.value), int(dut.malformed_from_o.value)))
            if int(dut.stranger_o.value):
                self.refused.append("stranger")
            if int(dut.beat_valid_o.value):
                assert runs, "a beat passes while its operation may not run"
                beats_of[int(dut.beat_index_o.value)] = int(dut.beat_o.value)
            if takes:
                self.taken.append((self.cycle, operation, beats_of, self.rounds))
                beats_of, self.wait = {}, self.chance.randint(0, self.patience)
            elif not int(dut.idle_o.value):
                self.wait -= 1
            await FallingEdge(dut.clk_i)
            self.cycle += 1
            if takes and operation["kind"] != constant(ROUND) and self.patience and self.chance.random() < 0.3:
                first = self.chance.choice((0, 5, 1000, 1 << 40))
                self.rounds = (first, first + self.chance.choice((0, 1, 1)))
                self.tell_rounds()

    def say(self, said, rate=1.0):
        """Offers events, given as (event, data), and their payloads."""
        events = [{"_i": pack("engine_event_t", **{**event, "kind": constant(event["kind"]), "bytes": len(data)})}
                  for event, data in said]
        payload = [{"_i": beat} for _, data in said if data for beat in beats(data, self.chance)]
        # The payload arrives after its event or together with it.
        cocotb.start_soon(self.send("event", events, rate))
        return cocotb.start_soon(self.send("payload", payload, rate))

    async def finish(self, count):
        for _ in range(100_000):
            if len(self.taken) >= count:
                break
            await FallingEdge(self.dut.clk_i)
        await self.idle()
        assert len(self.taken) == count


def deliver(data, message, sender=3):
    return dict(kind="EventDeliver", message=message, **{"from": sender}), data


def check(taken, expected):
    _, operation, beats_of, _ = taken
    fields, proposal = expected
    assert shown(operation, fields) == fields
    if 0 < len(proposal) <= PROPOSAL_BYTES:
        stored = b"".join(beats_of[index].to_bytes(64, "little") for index in range(-(-len(proposal) // 64)))
        assert stored[: len(proposal)] == proposal
        assert operation["bytes"] == len(proposal)


def compose(chance, rounds):
    """A random event with its data, mostly valid."""
    proposal = chance.randbytes(chance.choice((0, 1, 8, 63, 64, 65, 447, 448, chance.randrange(449))))
    if chance.random() < 0.05:
        proposal = chance.randbytes(chance.choice((449, 512, 600)))
    change = chance.random() < 0.2
    if change and chance.random() < 0.8:
        proposal = messages.change(chance.randrange(256), chance.randrange(256))
    others = ("EventCall", "EventCall", "EventTimer", "EventReset", "EventConfigure", "EventDone")
    kind = chance.choice(("EventDeliver",) * 8 + others)
    number = max(0, chance.choice(rounds) + chance.choice((0, 0, 0, 1, -1, -15, -16, 70)))
    if chance.random() < 0.05:
        number = chance.choice((1 << 62, (1 << 62) - 1, WORD))
    caller = messages.random_caller(chance)
    event = dict(kind=kind, caller=caller, tag=chance.choice((0, 0, 1 << 63)))
    if kind == "EventCall":
        return dict(event, message=chance.randrange(15, 22)), proposal
    if kind != "EventDeliver":
        return event, b""
    others = (messages.FETCH, messages.START, messages.JOIN, 0, 77)
    message = chance.choice((messages.ROUND,) * 4 + (messages.VALUE,) * 3 + others)
    event |= {"message": message, "from": chance.randrange(8) if chance.random() < 0.95 else chance.randrange(16)}
    if message in (messages.START, messages.JOIN):
        return event, chance.randbytes(chance.choice((0, 8, 8, 8, 64, 100)))
    if message == messages.FETCH:
        data = messages.fetch(number, chance.randrange(256))
    elif message == messages.VALUE:
        data = messages.value(number, chance.choice((0, 1, 7, 7, 8)), proposal, change)
    else:
        data = messages.round_message(number, proposal, chance.randbytes(48), chance.getrandbits(16), chance.randrange(256),
                                      chance.randrange(64), chance.randrange(256), change,
                                      messages.CONSENSUS if chance.random() < 0.95 else 2)
    fate = chance.random()
    if fate < 0.06:
        data = data[: chance.randrange(len(data))]
    elif fate < 0.1:
        data += chance.randbytes(chance.choice((1, 64)))
    return event, data


@cocotb.test()
async def follows_the_layouts(dut):
    taker = Taker(dut, 3, patience=12)
    await taker.begin()
    said = [compose(taker.chance, (0, 5, 6, 1000, 1 << 40)) for _ in range(3_000)]
    await taker.say(said, 0.8)
    await taker.idle()
    # How a Round is parsed depends on the current round at that time, after all earlier operations.
    taken, refused, now = iter(taker.taken), [], (5, 6)
    kinds = set()
    rest = list(taker.taken)
    for event, data in said:
        now = rest[0][3] if rest else now
        expected = parse(event, data, now)
        if expected:
            check(next(taken), expected)
            kinds.add(expected[0]["kind"])
            rest.pop(0)
        elif event["kind"] == "EventDeliver":
            refused.append("stranger" if event["from"] >= 8 else (int(event["message"] == messages.ROUND), event["from"]))
    assert next(taken, None) is None and taker.refused == refused
    assert kinds == set(KINDS) and len(refused) > 300 and "stranger" in refused
    assert taker.fresh == len(said), "each event is new for one cycle"


@cocotb.test()
async def beats_wait_until_their_operation_may_run(dut):
    """Beats of a Value, a Round or a call that arrive while an earlier operation is still running are not lost."""
    taker = Taker(dut, 4)
    proposal = taker.chance.randbytes(448)
    said = [
        deliver(messages.value(4, 2, proposal), messages.VALUE),
        deliver(messages.round_message(5, proposal[::-1]), messages.ROUND),
        (dict(kind="EventCall", message=messages.CALL_PROPOSE, caller=dict(kind=1, mac=2, address=3, port=4)), proposal),
    ]
    await taker.begin()
    for event, data in said:
        # The earlier operation runs for long enough that all beats could have passed.
        taker.wait = 30
        taker.taken.clear()
        await taker.say([(event, data)])
        await taker.finish(1)
        check(taker.taken[0], parse(event, data, taker.rounds))


@cocotb.test()
async def a_beat_a_cycle(dut):
    """A Round of one beat is parsed in every cycle, two cycles after its event; one with a proposal takes as many
    cycles as it has beats."""
    taker = Taker(dut, 5)
    await taker.begin()
    start = taker.cycle
    await taker.say([deliver(messages.round_message(5), messages.ROUND, sender % 8) for sender in range(40)])
    await taker.finish(40)
    cycles = [cycle for cycle, *_ in taker.taken]
    assert cycles == list(range(cycles[0], cycles[0] + 40))
    assert cycles[0] - start == 2
    taker.taken.clear()
    await taker.say([deliver(messages.round_message(5, bytes(448)), messages.ROUND) for _ in range(10)])
    await taker.finish(10)
    cycles = [cycle for cycle, *_ in taker.taken]
    assert {after - before for before, after in zip(cycles, cycles[1:])} == {8}


def test_round_parser():
    sources = ["weft_pkg.sv", "engines/engines_pkg.sv", "engines/rounds/rounds_pkg.sv", "engines/rounds/round_parser.sv"]
    bench.run("round_parser", sources, __file__)
