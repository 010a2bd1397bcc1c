"""responses: the same packets as the soft transport's responder, under all interleavings."""

import collections
import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly

import bench
from structs import constant, pack, unpack

NONE, ACKNOWLEDGE, REFUSE, READ, ATOMIC = map(
    constant, ("AnswerNone", "AnswerAcknowledge", "AnswerRefuse", "AnswerRead", "AnswerAtomic")
)
RESET, RECEIVE, ERROR = map(constant, ("ControlReset", "ControlReceive", "ControlError"))
IGNORED = [constant(name) for name in ("ControlInit", "ControlSend", "ControlAccess")]
FIRST, MIDDLE, LAST, ONLY, ACK, ATOMIC_ACK = map(
    constant,
    (
        "ReadResponseFirst",
        "ReadResponseMiddle",
        "ReadResponseLast",
        "ReadResponseOnly",
        "Acknowledge",
        "AtomicAcknowledge",
    ),
)
RESOURCES = constant("ResponderResources")
SEQUENCE_ERROR = constant("SyndromeSequenceError")
REMOTE_ACCESS = constant("SyndromeRemoteAccess")
NO_CREDITS = constant("SyndromeAck")
REMOTE_READ = 4
MASK = (1 << 24) - 1
VIOLATIONS = {1: "violation_key", 2: "violation_domain", 3: "violation_bounds", 4: "violation_permission"}


def before(a, b):
    return bool((a - b) & 1 << 23)


def mtu(qp):
    return 128 << path_mtu(qp)


def path_mtu(qp):
    return 1 + qp % 5


def domain(qp):
    return 0x100 + qp


def resources(qp):
    """The number of responder resources of a queue pair."""
    return (RESOURCES, 3, 1, 5)[qp % 4]


class Model:
    """The output of one queue pair, modelled after crates/rdma/src/queue_pair/responder/mod.rs."""

    def __init__(self, qp):
        self.qp = qp
        self.open = False
        # Resource of the newest request; walking round from the next one leads to the oldest.
        self.newest = 0
        # Pending responses by resource, from the oldest to the newest.
        self.responses = {}
        # The part of a READ that was requested again, and is sent first.
        self.part = None
        # Number of fresh responses that were dropped and whose pulse is outstanding.
        self.forgotten = 0
        self.acknowledgement = None
        self.msn = 0

    def has_output(self):
        return bool(self.responses) or self.part is not None or self.acknowledgement is not None

    def forget(self):
        self.forgotten += sum(response["fresh"] for response in self.responses.values())
        self.responses.clear()
        self.part = None

    def control(self, operation):
        self.forget()
        self.acknowledgement = None
        self.open = operation == RECEIVE
        self.msn = 0

    def gap(self, answer):
        """Whether the answered request has a gap behind it that a refusal tells of."""
        refusal = self.acknowledgement is not None and self.acknowledgement[0] != NO_CREDITS
        return refusal and answer["syndrome"] == SEQUENCE_ERROR or bool(answer["report"])

    def answer(self, answer):
        """Processes an answer. Returns whether an acknowledgement was merged."""
        kind = answer["kind"]
        if self.open:
            if kind != NONE:
                self.msn = answer["msn"]
        merged = False
        if kind in (READ, ATOMIC):
            if not self.open:
                self.forgotten += not answer["duplicate"]
            elif answer["duplicate"]:
                self.again(answer)
            else:
                forgotten = self.responses.pop(answer["resource"], None)
                assert not forgotten or not forgotten["fresh"]
                self.responses[answer["resource"]] = {**answer, "sent": 0, "fresh": True}
                merged = self.acknowledgement is not None and self.acknowledgement[0] == NO_CREDITS
                packets = max(1, -(-answer["length"] // mtu(self.qp))) if kind == READ else 1
                after = SEQUENCE_ERROR, answer["psn"] + packets & MASK, answer["kept"]
                self.acknowledgement = after if self.gap(answer) else None
                self.newest = answer["resource"]
                self.sort()
        elif kind == ACKNOWLEDGE and self.open:
            refusal = self.acknowledgement is not None and self.acknowledgement[0] != NO_CREDITS
            if self.acknowledgement is not None and before(answer["psn"], self.acknowledgement[1]):
                pass
            elif refusal and answer["duplicate"]:
                pass
            elif self.gap(answer):
                merged = self.acknowledgement is not None and not refusal and not answer["duplicate"]
                self.acknowledgement = SEQUENCE_ERROR, answer["psn"] + 1 & MASK, answer["kept"]
            else:
                merged = (
                    self.acknowledgement is not None
                    and self.acknowledgement[0] == NO_CREDITS
                    and not answer["duplicate"]
                )
                self.acknowledgement = NO_CREDITS, answer["psn"], 0
        elif kind == REFUSE and self.open:
            self.acknowledgement = answer["syndrome"], answer["psn"], answer["kept"]
        return merged

    def again(self, answer):
        """A duplicate replaces the pending response of its resource, unless it requests a part."""
        self.part = {**answer, "sent": 0, "fresh": False} if answer["part"] else None
        if self.part:
            return
        resource = answer["resource"]
        fresh = self.responses.get(resource, {"fresh": False})["fresh"]
        self.responses[resource] = {**answer, "sent": 0, "fresh": fresh}
        self.sort()

    def sort(self):
        order = ((self.newest + 1 + i) % RESOURCES for i in range(RESOURCES))
        self.responses = {r: self.responses[r] for r in order if r in self.responses}

    def oldest(self):
        return self.part or next(iter(self.responses.values()))

    def next(self):
        """The action of the next turn: none, reporting a dropped response, or a packet; and the access check that
        it needs."""
        if self.forgotten:
            return "forget", None, None
        if not self.has_output():
            return "nothing", None, None
        header = {"qp": self.qp, "msn": self.msn}
        if not self.responses and not self.part:
            syndrome, psn, kept = self.acknowledgement
            packet = {**header, "opcode": ACK, "psn": psn, "syndrome": syndrome, "acknowledge_request": kept}
            return "packet", packet, None
        response = self.oldest()
        offset = response["sent"] * mtu(self.qp)
        header |= {"psn": response["psn"] + response["sent"] & MASK, "syndrome": NO_CREDITS}
        if response["kind"] == ATOMIC:
            return "packet", {**header, "opcode": ATOMIC_ACK, "swap_or_add": response["original"]}, None
        left = response["length"] - offset
        size = min(left, mtu(self.qp))
        opcode = ((MIDDLE, LAST), (FIRST, ONLY))[response["sent"] == 0][left <= mtu(self.qp)]
        packet = {**header, "opcode": opcode, "bytes": size}
        if not size:
            return "packet", packet, None
        address = response["address"] + offset
        check = {
            "remote": 1,
            "key": response["rkey"],
            "domain": domain(self.qp),
            "address": address,
            "bytes": size,
            "needs": {"remote_atomic": 0, "remote_read": 1, "remote_write": 0, "local_write": 0},
        }
        return "packet", {**packet, "source_address": address}, check

    def sent(self):
        """The packet of `next` was sent. Returns whether it completed a request's answer."""
        if not self.responses and not self.part:
            self.acknowledgement = None
            return False
        response = self.oldest()
        response["sent"] += 1
        whole = response["kind"] == ATOMIC or response["sent"] * mtu(self.qp) >= response["length"]
        if self.part:
            self.part = None if whole else self.part
            return False
        return self.responses.pop(response["resource"])["fresh"] if whole else False

    def cut(self):
        """The access check of the packet of `next` failed. Returns the arguments of `refused`, and whether it was
        the last packet."""
        response = self.oldest()
        last = (response["sent"] + 1) * mtu(self.qp) >= response["length"]
        failure = response["resource"], response["fresh"], response["psn"] + response["sent"] & MASK, response["part"]
        if last and self.part:
            self.part = None
        elif last:
            del self.responses[response["resource"]]
        else:
            response["sent"] += 1
        return failure, last

    def refused(self, resource, fresh, psn, part):
        """The block processes a failed access check."""
        if fresh:
            self.forget()
            self.open = False
        elif part:
            self.part = None
        elif not self.responses.get(resource, {"fresh": True})["fresh"]:
            del self.responses[resource]
        self.acknowledgement = REMOTE_ACCESS, psn, 0


class Bench:
    """Drives the block cycle by cycle. The model follows the block's order of events and predicts everything else."""

    def __init__(self, dut, seed=0):
        self.dut = dut
        self.chance = random.Random(seed)
        self.models = collections.defaultdict(lambda: None)
        self.cycle_number = 0
        self.answers = collections.deque()
        self.controls = collections.deque()
        # Probabilities that an access check fails, and that the outputs are ready.
        self.refusal = 0.0
        self.transmit_ready = 1.0
        self.fail_ready = 1.0
        self.answer_valid = 1.0
        self.answer_held = False
        # Expected outputs: packets; access checks with their cycle and verdict; pulses by cycle; failures.
        self.packets = collections.deque()
        self.checks = collections.deque()
        self.grants = {}
        self.table = None
        self.failing = {}
        self.failures = collections.deque()
        self.pulses = collections.deque()
        # Actual outputs.
        self.sent = []
        self.failed = []
        self.events = collections.Counter()
        self.expected_events = collections.Counter()
        # For each queue pair: READs and atomics that are not answered, and the next resource.
        self.waiting = collections.Counter()
        self.resource = collections.Counter()

    async def start(self, queue_pairs=()):
        dut = self.dut
        cocotb.start_soon(Clock(dut.clk_i, 4, unit="ns").start())
        dut.rst_ni.value = 0
        dut.read_parts_i.value = 1
        for name in ("answer_valid_i", "control_valid_i", "transmit_ready_i", "fail_ready_i", "grant_i",
                     "notify_valid_i"):  # fmt: skip
            getattr(dut, name).value = 0
        for _ in range(3):
            await FallingEdge(dut.clk_i)
        dut.rst_ni.value = 1
        while not int(dut.idle_o.value):
            await FallingEdge(dut.clk_i)
        for qp in queue_pairs:
            self.control(qp, RECEIVE)
        await self.drain()

    def model(self, qp):
        if self.models[qp] is None:
            self.models[qp] = Model(qp)
        return self.models[qp]

    def control(self, qp, operation):
        self.controls.append({"qp": qp, "operation": operation, "argument": 0})

    def answer(self, qp, kind, psn=0, **fields):
        """Queues an answer."""
        base = {"kind": kind, "duplicate": 0, "part": 0, "psn": psn & MASK, "msn": 0, "syndrome": 0, "resource": 0}
        base |= {"address": 0, "rkey": 0, "length": 0, "original": 0, "report": 0, "kept": 0}
        packets = max(1, -(-fields.get("length", 0) // mtu(qp))) if kind == READ else 1
        base["next"] = psn + packets & MASK
        if kind in (READ, ATOMIC) and not fields.get("duplicate"):
            self.waiting[qp] += 1
            base["resource"] = self.resource[qp]
            self.resource[qp] = (self.resource[qp] + 1) % resources(qp)
        self.answers.append((qp, {**base, **fields}))
        return self.answers[-1][1]

    async def cycle(self):
        dut, chance = self.dut, self.chance
        # Inputs.
        offer = bool(self.answers) and (self.answer_held or chance.random() < self.answer_valid)
        dut.answer_valid_i.value = int(offer)
        if offer:
            dut.answer_qp_i.value = self.answers[0][0]
            dut.answer_i.value = pack("answer_t", **self.answers[0][1])
        dut.control_valid_i.value = int(bool(self.controls))
        if self.controls:
            dut.control_i.value = pack("control_t", **self.controls[0])
        dut.transmit_ready_i.value = int(chance.random() < self.transmit_ready)
        dut.fail_ready_i.value = int(chance.random() < self.fail_ready)
        if self.table is None:
            dut.table_data_i.value = chance.getrandbits(100)
        else:
            attributes = {"number": 0x400 + self.table, "path_mtu": path_mtu(self.table)}
            dut.table_data_i.value = pack("queue_pair_t", domain=domain(self.table), **attributes)
        grant = self.grants.pop(self.cycle_number, None)
        verdict, target = grant or (chance.randrange(5), chance.randrange(4))
        dut.grant_i.value = pack("access_grant_t", verdict=verdict, target=target)
        await ReadOnly()

        # Outputs, and the inputs that respond to them.
        self.table = int(dut.table_index_o.value) if int(dut.table_read_o.value) else None
        if int(dut.check_valid_o.value):
            at, check, verdict, target = self.checks.popleft()
            assert at == self.cycle_number
            assert unpack("access_request_t", dut.check_o.value) == check
            self.grants[self.cycle_number + 3] = verdict, target
        assert not self.checks or self.checks[0][0] > self.cycle_number
        if int(dut.answered_valid_o.value):
            qp = int(dut.answered_qp_o.value)
            assert self.pulses.popleft() == (self.cycle_number, qp)
            self.waiting[qp] -= 1
            assert self.waiting[qp] >= 0
        assert not self.pulses or self.pulses[0][0] > self.cycle_number
        if int(dut.transmit_valid_o.value) and int(dut.transmit_ready_i.value):
            packet = unpack("transmit_t", dut.transmit_o.value)
            self.compare(packet, self.packets.popleft())
            self.sent.append((self.cycle_number, packet))
        if int(dut.fail_valid_o.value) and int(dut.fail_ready_i.value):
            failed = int(dut.fail_o.value)
            assert failed == self.failures.popleft()
            self.failed.append(failed)
        for name, value in unpack("responses_events_t", dut.events_o.value).items():
            self.events[name] += value

        # The event that the block chose.
        accepted = offer and int(dut.answer_ready_o.value)
        chosen = [name for name in ("failure", "control", "answer", "turn") if int(getattr(dut, f"take_{name}").value)]
        assert len(chosen) <= 1
        qp = int(dut.qp0.value)
        if "failure" in chosen:
            failure = self.failing.pop(qp)
            if failure[1]:
                self.failures.append(qp)
            self.model(qp).refused(*failure)
        if "turn" in chosen:
            self.turn(qp)
        self.answer_held = offer and not accepted
        if accepted:
            qp, answer = self.answers.popleft()
            self.expected_events["ack_deferred"] += self.model(qp).answer(answer)
        if self.controls and int(dut.control_ready_o.value):
            control = self.controls.popleft()
            if control["operation"] in (RESET, RECEIVE, ERROR):
                self.model(control["qp"]).control(control["operation"])
        await FallingEdge(dut.clk_i)
        self.cycle_number += 1

    def turn(self, qp):
        model = self.model(qp)
        assert qp not in self.failing
        what, packet, check = model.next()
        grant_cycle = self.cycle_number + 6
        if what == "forget":
            model.forgotten -= 1
            self.pulses.append((grant_cycle, qp))
        if what != "packet":
            return
        verdict, target = 0, self.chance.randrange(4)
        if check:
            if self.chance.random() < self.refusal:
                verdict = self.chance.randrange(1, 5)
            self.checks.append((self.cycle_number + 3, check, verdict, target))
            packet["target"] = target
        if verdict == 0:
            self.packets.append(packet)
            if model.sent():
                self.pulses.append((grant_cycle, qp))
            return
        failure, last = model.cut()
        self.failing[qp] = failure
        if last and failure[1]:
            self.pulses.append((grant_cycle, qp))
        self.expected_events["sent_access_error"] += 1
        self.expected_events[VIOLATIONS[verdict]] += 1

    def compare(self, packet, expected):
        expected = dict(expected)
        target = expected.pop("target", None)
        if target is not None:
            assert packet["source"] == {"retransmission": 0, "target": target}
        if packet["opcode"] == MIDDLE:
            expected.pop("msn"), expected.pop("syndrome")
        for field, value in expected.items():
            assert packet[field] == value, (field, packet, expected)
        for field in ("solicited", "keep"):
            assert packet[field] == 0
        if packet["opcode"] != ACK:
            assert packet["acknowledge_request"] == 1, "responses say that parts are understood"
        if "bytes" not in expected:
            assert packet["bytes"] == 0

    async def drain(self, limit=5_000):
        for _ in range(limit):
            await self.cycle()
            if not self.answers and not self.controls and int(self.dut.idle_o.value):
                break
        else:
            raise AssertionError("still busy")
        assert not self.packets and not self.checks and not self.pulses and not self.failing
        assert not self.failures and not +self.waiting
        assert not any(model.has_output() or model.forgotten for model in self.models.values() if model)
        assert self.events == self.expected_events, (self.events, self.expected_events)

    def shape(self):
        """The packets sent since the last call: opcode, PSN, and for responses with payload its length."""
        sent = [(packet["opcode"], packet["psn"], packet["bytes"]) for _, packet in self.sent]
        self.sent.clear()
        return sent


@cocotb.test()
async def an_acknowledgement_a_refusal_and_an_atomic_say_what_they_were_told(dut):
    b = Bench(dut)
    await b.start([5])
    b.answer(5, ACKNOWLEDGE, 0xFFFFFF, msn=3)
    await b.drain()
    b.answer(5, REFUSE, 7, msn=4, syndrome=SEQUENCE_ERROR)
    await b.drain()
    b.answer(5, ATOMIC, 8, msn=5, original=0xFEDC_BA98_7654_3210)
    await b.drain()
    packets = [packet for _, packet in b.sent]
    assert [(p["opcode"], p["psn"], p["syndrome"], p["msn"]) for p in packets] == [
        (ACK, 0xFFFFFF, 0x1F, 3),
        (ACK, 7, 0x60, 4),
        (ATOMIC_ACK, 8, 0x1F, 5),
    ]
    assert packets[2]["swap_or_add"] == 0xFEDC_BA98_7654_3210


@cocotb.test()
async def a_read_is_cut_at_the_path_mtu(dut):
    b = Bench(dut)
    await b.start(range(5))
    for qp in range(5):
        size = mtu(qp)
        for length, shape in (
            (0, [(ONLY, 0)]),
            (1, [(ONLY, 1)]),
            (size, [(ONLY, size)]),
            (size + 1, [(FIRST, size), (LAST, 1)]),
            (3 * size - 1, [(FIRST, size), (MIDDLE, size), (LAST, size - 1)]),
            (4 * size, [(FIRST, size), (MIDDLE, size), (MIDDLE, size), (LAST, size)]),
        ):
            b.answer(qp, READ, 0xFFFFFE, address=0xFFFF_0000_0123, rkey=0x1234_5678, length=length)
            await b.drain()
            got = b.shape()
            assert [(opcode, size) for opcode, _, size in got] == shape
            assert [psn for _, psn, _ in got] == [0xFFFFFE + i & MASK for i in range(len(shape))]
    # The longest message that the specification allows; only its first packets are checked.
    b.answer(4, READ, 1, address=0x1000, rkey=1, length=1 << 31)
    for _ in range(100):
        await b.cycle()
    assert b.shape()[0] == (FIRST, 1, 4096)
    b.control(4, RESET)
    await b.drain()


async def stall(b, others):
    """Fills the block with acknowledgements of other queue pairs, so that later answers get no turn yet."""
    b.transmit_ready = 0.0
    for qp in others:
        b.answer(qp, ACKNOWLEDGE, 0)
    for _ in range(100):
        await b.cycle()


async def release(b):
    for _ in range(40):
        await b.cycle()
    b.transmit_ready = 1.0
    await b.drain()
    return b.shape()[16:]


@cocotb.test()
async def a_later_answer_speaks_for_an_earlier_one(dut):
    b = Bench(dut)
    others = range(100, 116)
    await b.start([1, *others])

    await stall(b, others)
    for psn in (5, 6, 9):
        b.answer(1, ACKNOWLEDGE, psn)
    assert await release(b) == [(ACK, 9, 0)]
    assert b.events["ack_deferred"] == 2

    # A response also acknowledges; what follows it is acknowledged afterwards.
    await stall(b, others)
    b.answer(1, ACKNOWLEDGE, 10)
    b.answer(1, READ, 11, length=1)
    b.answer(1, ACKNOWLEDGE, 12)
    b.answer(1, ATOMIC, 13, original=1)
    b.answer(1, ACKNOWLEDGE, 14)
    b.answer(1, REFUSE, 15, syndrome=SEQUENCE_ERROR)
    assert await release(b) == [(ONLY, 11, 1), (ATOMIC_ACK, 13, 0), (ACK, 15, 0)]

    # A duplicate neither replaces a refusal nor lowers an acknowledgement; its response is sent before both.
    await stall(b, others)
    b.answer(1, REFUSE, 20, syndrome=0x2C)
    b.answer(1, ACKNOWLEDGE, 19, duplicate=1)
    b.answer(1, READ, 11, length=1, duplicate=1)
    assert await release(b) == [(ONLY, 11, 1), (ACK, 20, 0)]
    # Of the acknowledgements of duplicates the highest counts; a new request's acknowledgement is higher than all of
    # them.
    await stall(b, others)
    b.answer(1, ACKNOWLEDGE, 15, duplicate=1)
    b.answer(1, ACKNOWLEDGE, 17, duplicate=1)
    b.answer(1, ACKNOWLEDGE, 16, duplicate=1)
    assert await release(b) == [(ACK, 17, 0)]
    await stall(b, others)
    b.answer(1, ACKNOWLEDGE, 15, duplicate=1)
    b.answer(1, ACKNOWLEDGE, 20)
    assert await release(b) == [(ACK, 20, 0)]
    await stall(b, others)
    b.answer(1, ACKNOWLEDGE, 20)
    b.answer(1, ACKNOWLEDGE, 19, duplicate=1)
    assert await release(b) == [(ACK, 20, 0)]

    # A request has filled the start of a gap: the refusal's PSN becomes that of the next missing packet.
    await stall(b, others)
    b.answer(1, REFUSE, 30, syndrome=0x2C)
    b.answer(1, ACKNOWLEDGE, 30, syndrome=SEQUENCE_ERROR)
    assert await release(b) == [(ACK, 31, 0)]
    await stall(b, others)
    b.answer(1, REFUSE, 31, syndrome=SEQUENCE_ERROR)
    b.answer(1, READ, 31, length=mtu(1) + 1, syndrome=SEQUENCE_ERROR)
    b.answer(1, ACKNOWLEDGE, 32, duplicate=1)
    b.answer(1, ATOMIC, 13, duplicate=1, resource=1)
    assert await release(b) == [(ATOMIC_ACK, 13, 0), (FIRST, 31, mtu(1)), (LAST, 32, 1), (ACK, 33, 0)]
    # The same, if a duplicate requests less than its original.
    await stall(b, others)
    b.answer(1, REFUSE, 31, syndrome=SEQUENCE_ERROR)
    b.answer(1, READ, 31, length=3 * mtu(1), syndrome=SEQUENCE_ERROR)
    b.answer(1, READ, 32, length=mtu(1), duplicate=1, resource=0)
    assert await release(b) == [(ONLY, 32, mtu(1)), (ACK, 34, 0)]
    await stall(b, others)
    b.answer(1, ACKNOWLEDGE, 34, syndrome=SEQUENCE_ERROR)
    assert await release(b) == [(ACK, 34, 0)]

    # A gap that nothing pending tells of is reported, with a response too; and what is behind it is kept.
    for kept in (0, 1):
        await stall(b, others)
        b.answer(1, ACKNOWLEDGE, 34, syndrome=SEQUENCE_ERROR, report=1, kept=kept)
        assert await release(b) == [(ACK, 35, 0)]
        await stall(b, others)
        b.answer(1, READ, 34, length=1, syndrome=SEQUENCE_ERROR, report=1, kept=kept)
        assert await release(b) == [(ONLY, 34, 1), (ACK, 35, 0)]

    # The refused request has been executed after all.
    await stall(b, others)
    b.answer(1, REFUSE, 35, syndrome=SEQUENCE_ERROR)
    b.answer(1, ACKNOWLEDGE, 35)
    assert await release(b) == [(ACK, 35, 0)]
    assert b.sent == []


@cocotb.test()
async def notifications_leave_and_at_most_eight_wait(dut):
    b = Bench(dut)
    await b.start([1])
    dut.transmit_ready_i.value = 0
    dut.notify_valid_i.value = 1
    dut.notify_i.value = 7
    taken = 0
    for _ in range(20):
        taken += int(dut.notify_ready_o.value)
        await FallingEdge(dut.clk_i)
    assert taken == 8 and not int(dut.idle_o.value)
    dut.notify_valid_i.value = 0
    dut.transmit_ready_i.value = 1
    left = []
    for _ in range(20):
        if int(dut.transmit_valid_o.value):
            packet = unpack("transmit_t", int(dut.transmit_o.value))
            left.append((packet["qp"], packet["opcode"], packet["bytes"]))
        await FallingEdge(dut.clk_i)
    assert left == [(7, constant("CongestionNotification"), 0)] * 8 and int(dut.idle_o.value)
    # All slots for responses are free again.
    for psn in range(40):
        b.answer(1, ACKNOWLEDGE, psn)
    await b.drain()
    assert b.sent


@cocotb.test()
async def a_permission_that_goes_ends_the_connection_at_the_missing_packet(dut):
    b = Bench(dut)
    await b.start([1])
    b.fail_ready = 0.0
    b.answer(1, READ, 10, length=4 * mtu(1))
    b.answer(1, READ, 14, length=1)
    b.answer(1, ATOMIC, 15)
    while len(b.sent) < 2:
        await b.cycle()
    b.refusal = 1.0
    for _ in range(100):
        await b.cycle()
    assert int(dut.fail_valid_o.value)
    packets = [(p["opcode"], p["psn"], p["syndrome"]) for _, p in b.sent]
    assert packets[-1][0] == ACK and packets[-1][2] == REMOTE_ACCESS
    assert packets[-1][1] == packets[-2][1] + 1
    # Answers in flight do not replace the refusal, and are dropped.
    b.answer(1, ACKNOWLEDGE, 16)
    b.answer(1, READ, 17, length=1)
    b.fail_ready = 1.0
    b.refusal = 0.0
    b.sent.clear()
    await b.drain()
    assert b.failed == [1] and not b.sent
    # A new connection works.
    b.control(1, RECEIVE)
    await b.drain()
    b.answer(1, READ, 0, length=mtu(1) + 1)
    await b.drain()
    assert [opcode for opcode, _, _ in b.shape()] == [FIRST, LAST]


@cocotb.test()
async def a_duplicate_takes_the_place_of_an_older_response(dut):
    b = Bench(dut)
    others = range(100, 116)
    await b.start([4, *others])
    size = mtu(4)
    # A response that waits: fresh, and after a first and a second duplicate.
    await stall(b, others)
    b.answer(4, READ, 10, address=0, length=3 * size)
    b.answer(4, READ, 11, address=size, length=2 * size, duplicate=1)
    assert await release(b) == [(FIRST, 11, size), (LAST, 12, size)]
    await stall(b, others)
    b.answer(4, READ, 10, address=0, length=2 * size, duplicate=1)
    b.answer(4, READ, 12, address=2 * size, length=5, duplicate=1)
    assert await release(b) == [(ONLY, 12, 5)]
    # A response that has begun: its remaining packets are not sent.
    b.answer(4, READ, 13, address=0, length=100 * size)
    while len(b.sent) < 20:
        await b.cycle()
    b.answer(4, READ, 20, address=7 * size, length=93 * size, duplicate=1, resource=1)
    await b.drain()
    psns = [psn for _, psn, _ in b.shape()]
    again = psns.index(20, 8)
    assert psns == [*range(13, 13 + again), *range(20, 113)] and 20 <= again < 26
    # The responses of other resources continue where they were, after those of older resources.
    b.answer(4, READ, 113, address=0, length=40 * size)
    while len(b.sent) < 10:
        await b.cycle()
    b.answer(4, READ, 12, address=2 * size, length=5, duplicate=1)
    await b.drain()
    psns = [psn for _, psn, _ in b.shape()]
    assert 10 <= psns.index(12) < 16
    psns.remove(12)
    assert psns == list(range(113, 153))
    # The oldest is first, in whatever order duplicates arrive; an atomic is answered once, however often its
    # duplicate arrives.
    b.answer(4, ATOMIC, 153, original=7)
    await b.drain()
    b.shape()
    await stall(b, others)
    for psn in (153, 113, 153, 12):
        b.answer(4, *{
            153: (ATOMIC, 153), 113: (READ, 113), 12: (READ, 12),
        }[psn], length=5, duplicate=1, resource={153: 3, 113: 2, 12: 0}[psn])
    assert await release(b) == [(ONLY, 12, 5), (ONLY, 113, 5), (ATOMIC_ACK, 153, 0)]


@cocotb.test()
async def a_part_is_sent_first_and_ends_nothing(dut):
    b = Bench(dut)
    await b.start([4])
    size = mtu(4)
    b.answer(4, READ, 10, address=0, length=100 * size)
    while len(b.sent) < 20:
        await b.cycle()
    b.answer(4, READ, 13, address=3 * size, length=2 * size, duplicate=1, part=1)
    await b.drain()
    shape = b.shape()
    at = shape.index((FIRST, 13, size))
    assert 20 <= at < 30 and shape[at + 1] == (LAST, 14, size), "two packets, next"
    del shape[at : at + 2]
    assert [psn for _, psn, _ in shape] == list(range(10, 110)), "the rest goes on"
    # A later part replaces an earlier one, and so does a duplicate that reaches to the end.
    b.answer(4, READ, 110, address=0, length=100 * size)
    while len(b.sent) < 5:
        await b.cycle()
    b.answer(4, READ, 111, address=size, length=40 * size, duplicate=1, part=1, resource=1)
    while len(b.sent) < 30:
        await b.cycle()
    b.answer(4, READ, 112, address=2 * size, length=size, duplicate=1, part=1, resource=1)
    await b.drain()
    psns = [psn for _, psn, _ in b.shape()]
    assert 60 < len(psns) < 140 and [psn for psn in psns if psn > 152] == list(range(153, 210))
    b.answer(4, READ, 111, address=size, length=40 * size, duplicate=1, part=1, resource=1)
    while len(b.sent) < 5:
        await b.cycle()
    b.answer(4, READ, 208, address=98 * size, length=2 * size, duplicate=1, resource=1)
    await b.drain()
    assert [psn for _, psn, _ in b.shape()][-2:] == [208, 209]


@cocotb.test()
async def a_new_request_takes_the_place_of_a_duplicate_and_a_duplicate_of_a_fresh_one_stays_fresh(dut):
    b = Bench(dut)
    others = range(100, 116)
    await b.start([1, *others])
    assert resources(1) == 3
    for psn in range(3):
        b.answer(1, READ, psn, length=1)
    await b.drain()
    b.shape()
    # The fourth request reuses the resource of the first.
    await stall(b, others)
    for psn in range(3):
        b.answer(1, READ, psn, length=1, duplicate=1, resource=psn)
    b.answer(1, READ, 3, length=2)
    assert await release(b) == [(ONLY, 1, 1), (ONLY, 2, 1), (ONLY, 3, 2)]
    # A fresh response that a duplicate restarted still ends the connection when its check fails.
    await stall(b, others)
    b.answer(1, READ, 4, length=2)
    b.answer(1, READ, 4, length=2, duplicate=1, resource=1)
    b.refusal = 1.0
    assert await release(b) == [(ACK, 4, 0)] and b.failed == [1]


@cocotb.test()
async def a_duplicate_read_that_is_refused_is_only_given_up(dut):
    b = Bench(dut)
    await b.start([1])
    b.refusal = 1.0
    b.answer(1, READ, 10, length=4 * mtu(1), duplicate=1)
    await b.drain()
    b.answer(1, READ, 10, length=1, duplicate=1)
    await b.drain()
    assert b.shape() == [(ACK, 10, 0), (ACK, 10, 0)]
    b.refusal = 0.0
    b.answer(1, READ, 14, length=1)
    await b.drain()
    assert b.shape() == [(ONLY, 14, 1)] and not b.failed


@cocotb.test()
async def only_a_receiving_queue_pair_answers(dut):
    b = Bench(dut)
    await b.start()
    # Every READ and atomic still has its pulse, which `drain` checks.
    for operation in (None, RESET, ERROR):
        if operation is not None:
            b.control(9, operation)
            await b.drain()
        for kind in (ACKNOWLEDGE, REFUSE, READ, ATOMIC):
            b.answer(9, kind, 1, length=1)
        await b.drain()
        assert not b.shape()
        for ignored in IGNORED:
            b.control(9, ignored)
        await b.drain()
        b.answer(9, ACKNOWLEDGE, 1)
        await b.drain()
        assert not b.shape()
    b.control(9, RECEIVE)
    await b.drain()
    b.answer(9, ACKNOWLEDGE, 1, msn=1)
    await b.drain()
    assert b.shape() == [(ACK, 1, 0)]
    for operation in (RESET, ERROR, RECEIVE):
        b.control(9, RECEIVE)
        await b.drain()
        b.transmit_ready = 0.0
        for psn in range(resources(9)):
            b.answer(9, READ, 10 * psn, length=5 * mtu(9))
        b.answer(9, ACKNOWLEDGE, 500)
        for _ in range(300):
            await b.cycle()
        b.control(9, operation)
        b.transmit_ready = 1.0
        await b.drain()
        # Only packets that had been cut off before the change.
        assert len(b.shape()) <= 16
        b.answer(9, ACKNOWLEDGE, 501)
        await b.drain()
        assert b.shape() == ([(ACK, 501, 0)] if operation == RECEIVE else [])


@cocotb.test()
async def queue_pairs_and_kinds_take_turns(dut):
    b = Bench(dut)
    await b.start(range(1, 6))
    for qp in range(1, 5):
        b.answer(qp, READ, 0, length=20 * mtu(qp))
    for _ in range(60):
        await b.cycle()
    b.answer(5, ACKNOWLEDGE, 1)
    asked = b.cycle_number
    await b.drain()
    order = [packet["qp"] for _, packet in b.sent]
    # In the middle of it, four READs take turns.
    without = [qp for qp in order if qp != 5][8:64]
    assert all(len(set(without[i : i + 4])) == 4 for i in range(0, 56, 4)), without
    # The acknowledgement waits for one round of turns, not for a whole READ.
    assert next(cycle for cycle, packet in b.sent if packet["qp"] == 5) <= asked + 20


@cocotb.test()
async def latency_and_rates_are_as_written(dut):
    b = Bench(dut)
    await b.start(range(64))
    b.answer(3, ACKNOWLEDGE, 1)
    asked = b.cycle_number
    await b.drain()
    assert b.sent[0][0] - asked == 9
    b.sent.clear()

    # One queue pair: a packet of a READ every 7 cycles (from turn to turn), an answer every 2.
    b.answer(3, READ, 1, length=40 * mtu(3))
    await b.drain()
    period = (b.sent[-1][0] - b.sent[0][0]) / 39
    dut._log.info(f"READ packets of one queue pair: one in {period} cycles")
    assert period <= 7
    b.sent.clear()
    began = b.cycle_number
    for psn in range(100):
        b.answer(3, ACKNOWLEDGE, psn)
    while b.answers:
        await b.cycle()
    period = (b.cycle_number - began) / 100
    dut._log.info(f"answers of one queue pair: one in {period} cycles")
    assert period <= 3.24
    await b.drain()

    # 32 queue pairs, in which each answer makes a packet.
    b.sent.clear()
    began = b.cycle_number
    for psn in range(30):
        for qp in range(32):
            b.answer(qp, ACKNOWLEDGE, psn)
    while b.answers:
        await b.cycle()
    period = (b.cycle_number - began) / 960
    rate = len(b.sent) / (b.cycle_number - began)
    dut._log.info(f"answers of 32 queue pairs: one in {period} cycles; packets: {rate} a cycle")
    assert period <= 3.0 and rate > 0.34
    await b.drain()


async def stress(b, steps, queue_pairs):
    chance = b.chance
    psn = collections.Counter()
    kept = {}
    rates = (1.0, 0.5, 0.1)
    for step in range(steps):
        if step % 200 == 0:
            b.refusal = chance.choice((0.0, 0.05, 0.3))
            b.transmit_ready = chance.choice(rates)
            b.fail_ready = chance.choice(rates)
            b.answer_valid = chance.choice(rates)
            few = chance.choice((1, 2, 4, len(queue_pairs)))
            controls = chance.choice((0.0, 0.001, 0.01))
            reads = chance.choice((0.05, 0.4))
        if chance.random() < controls:
            operation = chance.choice([RECEIVE] * 9 + [RESET, ERROR, *IGNORED])
            b.control(queue_pairs[chance.randrange(few)], operation)
        if len(b.answers) < 4:
            qp = queue_pairs[chance.randrange(few)]
            psn[qp] += 1
            common = {
                "msn": chance.getrandbits(24),
                "duplicate": int(chance.random() < 0.3),
            }
            size = mtu(qp)
            if chance.random() < reads and common["duplicate"]:
                resource = chance.randrange(resources(qp))
                if (qp, resource) in kept:
                    # A part of the original's data.
                    part = dict(kept[qp, resource])
                    skipped = chance.choice((0, 0, chance.randrange(5)))
                    if part["kind"] == READ and skipped * size < part["length"]:
                        rest = part["length"] - skipped * size
                        part["psn"] = part["psn"] + skipped & MASK
                        part["address"] += skipped * size
                        part["length"] = chance.choice((rest, rest, chance.randrange(rest + 1)))
                        part["part"] = int(part["length"] < rest)
                    for name in ("part", "kind", "psn", "address", "rkey", "length", "original", "resource"):
                        common[name] = part[name]
                    b.answer(qp, common.pop("kind"), common.pop("psn"), syndrome=NO_CREDITS, **common)
            elif chance.random() < reads:
                kind = chance.choice((READ, READ, ATOMIC))
                if b.waiting[qp] < resources(qp):
                    common["syndrome"] = chance.choice((NO_CREDITS, SEQUENCE_ERROR))
                    common["duplicate"] = 0
                    if common["syndrome"] == SEQUENCE_ERROR:
                        common["report"], common["kept"] = chance.randrange(2), chance.randrange(2)
                    length = chance.choice((0, 1, size - 1, size, size + 1, chance.randrange(5 * size)))
                    answer = b.answer(
                        qp,
                        kind,
                        psn[qp],
                        address=chance.getrandbits(47),
                        rkey=chance.getrandbits(32),
                        length=length,
                        original=chance.getrandbits(64),
                        **common,
                    )
                    kept[qp, answer["resource"]] = answer
                    psn[qp] += 5
            else:
                kind = chance.choice((NONE, ACKNOWLEDGE, ACKNOWLEDGE, ACKNOWLEDGE, REFUSE))
                at = psn[qp] - (chance.randrange(3) if common["duplicate"] else 0)
                syndromes = (0x60, 0x61, 0x2C) if kind == REFUSE else (NO_CREDITS, SEQUENCE_ERROR)
                common["syndrome"] = chance.choice(syndromes)
                if common["syndrome"] == SEQUENCE_ERROR:
                    common["kept"] = chance.randrange(2)
                    common["report"] = int(kind == ACKNOWLEDGE and not common["duplicate"] and chance.random() < 0.5)
                b.answer(qp, kind, at, **common)
        await b.cycle()
        if step % 100 == 99:
            for model in filter(None, list(b.models.values())):
                if not model.open:
                    b.control(model.qp, RECEIVE)
    b.transmit_ready = b.fail_ready = b.answer_valid = 1.0
    b.refusal = 0.0
    await b.drain()


@cocotb.test()
async def any_mix_of_answers_and_changes_sends_what_the_soft_responder_sends(dut):
    queue_pairs = [0, 1, 2, 3, 4, 511, 300, 77]
    b = Bench(dut, 7)
    await b.start(queue_pairs)
    await stress(b, 20_000, queue_pairs)
    dut._log.info(f"{len(b.sent)} packets, {len(b.failed)} failures, {dict(b.events)}")
    assert len(b.sent) > 2_000 and len(b.failed) > 30


def test_responses():
    bench.run(
        "responses",
        ["weft_pkg.sv", "stream/fifo.sv", "stream/ram.sv", "rdma/scheduler.sv", "rdma/responses.sv"],
        __file__,
    )
