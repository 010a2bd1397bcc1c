"""responder: every rule of the receiving side, and random traffic against a model of the soft twin."""

import os
import random
from collections import deque

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly, RisingEdge

import bench
import responder_model as model
from responder_model import Region
from structs import RTL, Package, constant, pack, unpack, width

SOURCES = [
    "stream/ram.sv", "stream/fifo.sv", "stream/credit_counter.sv", "rdma/responder_pkg.sv", "rdma/responder_intake.sv", "rdma/responder_credits.sv",
    "rdma/responder_answered.sv", "rdma/responder_lookup.sv", "rdma/responder_judge.sv", "rdma/responder_conclude.sv",
    "rdma/responder_output.sv", "rdma/responder_events.sv", "rdma/responder.sv",
]
HOST_CREDITS = 2048
RPC_CREDITS = 2
EVENTS = ["Header", "Post", "Reset", "Init", "Receive", "Access", "Error", "Fail", "Flush", "Query", "Dropped", "Nothing", "Kept"]
PEER = 0x0A00_0002
FULL = 15

SEND_FIRST, SEND_MIDDLE, SEND_LAST, SEND_LAST_IMMEDIATE, SEND_ONLY, SEND_ONLY_IMMEDIATE = range(6)
WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST, WRITE_LAST_IMMEDIATE, WRITE_ONLY, WRITE_ONLY_IMMEDIATE = range(6, 12)
READ, COMPARE_SWAP, FETCH_ADD = 0x0C, 0x13, 0x14

INVALID, ACCESS, OPERATIONAL, SEQUENCE = 0x61, 0x62, 0x63, 0x60


RESPONDER_TYPES = Package([RTL / "weft_pkg.sv", RTL / "rdma/responder_pkg.sv"])


class Kept:
    """Plays `reorder`: keeps headers, and hands them back after a while."""

    def __init__(self, places, chance):
        self.places, self.chance = places, chance
        self.headers, self.valid, self.queued = {}, set(), deque()
        self.search = None
        self.count = 0

    def free(self):
        return [place for place in range(self.places) if place not in self.headers]

    def answer(self):
        """Whether the packet of the search is kept, and any of its queue pair; and its place."""
        waiting = {place for place, _ in self.queued}
        held = {place: self.headers[place] for place in self.valid - waiting}
        qp, psn = self.search
        of_pair = {place for place, header in held.items() if header["destination_qp"] % 512 == qp}
        found = [place for place in of_pair if held[place]["psn"] == psn]
        assert len(found) <= 1
        return (found[0] if found else None), bool(of_pair)

    def command(self, command):
        place = command["place"]
        found, _ = self.answer()
        if command["keep"]:
            self.valid.add(place)
            self.count += 1
        elif command["reserved"] or command["returned"]:
            self.valid.discard(place)
            del self.headers[place]
        if command["next"]:
            self.queued.append((found, command["deferred"]))
        if command["clear"]:
            qp = self.search[0]
            gone = {place for place in self.valid if self.headers[place]["destination_qp"] % 512 == qp}
            self.queued = deque((place, deferred) for place, deferred in self.queued if place not in gone)
            self.valid -= gone
            for place in gone:
                del self.headers[place]


def number(index):
    return 0x200 | index


class Bench:
    """Drives every port in each cycle, plays the tables, and runs the model beside the module."""

    def __init__(self, dut, seed=1, slow=False, places=0):
        self.dut = dut
        self.chance = random.Random(seed)
        # `slow`: inputs are offered and outputs accepted only in a part of the cycles.
        self.slow = slow
        self.table = {}
        self.regions = {}
        self.region_history = deque([self.regions] * 4, maxlen=4)
        self.model = model.Model(self.table, HOST_CREDITS, RPC_CREDITS)
        self.model.keeps = places > 0
        self.kept, self.back, self.reserves = Kept(places, self.chance), None, deque([0] * 4, maxlen=4)
        self.searched = (0, 0)
        self.headers, self.posts, self.controls = deque(), deque(), deque()
        self.permissions, self.faults, self.answered = deque(), deque(), deque()
        self.host_returns, self.rpc_returns, self.queries = deque(), deque(), deque()
        self.cycle = 0
        self.accepted = deque()
        self.in_order, self.flushes, self.unflushed = deque(), {}, {}
        self.verdicts, self.fails, self.calls = [], [], 0
        # READs and atomics whose first response is due; and credits in use.
        self.owed, self.spent, self.called = [], [], 0
        self.events = {}
        self.done = 0
        self.grants = deque([None] * 3, maxlen=3)
        self.lookup = None
        self.late_credits, self.late_calls, self.late_answers = deque(), deque(), deque()
        self.query_expected = None
        self.answers = []
        self.held = {}
        self.open_verdict = 1.0
        self.latency = {}

    async def start(self):
        dut = self.dut
        cocotb.start_soon(Clock(dut.clk_i, 4, unit="ns").start())
        for name in ("control", "permission", "fail", "receive", "header", "credit_return", "answered", "query"):
            getattr(dut, f"{name}_valid_i").value = 0
        for name in ("rpc_free_i", "fail_ready_i", "verdict_ready_i"):
            getattr(dut, name).value = 0
        dut.rst_ni.value = 0
        for _ in range(2):
            await FallingEdge(dut.clk_i)
        dut.rst_ni.value = 1
        await self.drain(600)

    def offer(self, name, queue):
        """Holds the oldest element on a port until it is accepted."""
        if name not in self.held and queue and (not self.slow or self.chance.random() < 0.6):
            self.held[name] = queue[0]
        getattr(self.dut, f"{name}_valid_i").value = int(name in self.held)
        return self.held.get(name)

    def taken(self, name, queue):
        if name in self.held and int(getattr(self.dut, f"{name}_ready_o").value):
            del self.held[name]
            return queue.popleft()
        return None

    async def step(self):
        dut = self.dut
        await FallingEdge(dut.clk_i)
        # What was kept and is next goes before other packets.
        if self.back is None and self.kept.queued and self.chance.random() < (0.1 if self.slow else 0.5):
            self.back = self.kept.queued[0]
        if self.back is not None and self.back not in self.kept.queued:
            self.back = None
        dut.header_kept_i.value = int(self.back is not None)
        dut.keeps_i.value = int(self.kept.places > 0)
        free = self.kept.free()
        dut.room_i.value, dut.room_place_i.value = int(bool(free)), free[0] if free else 0
        self.kept.search = self.searched
        found, any_ = self.kept.answer()
        dut.found_i.value, dut.any_i.value = int(found is not None), int(any_)
        if self.back is not None:
            place, deferred = self.back
            header = {**self.kept.headers[place], "payload_offset": 0, "marked": 0}
            header["acknowledge_request"] |= deferred
            self.held.pop("header", None)
            dut.header_valid_i.value, dut.header_place_i.value, dut.header_deferred_i.value = 1, place, deferred
            dut.header_i.value = pack("roce_header_t", **header)
        elif (header := self.offer("header", self.headers)) is not None:
            dut.header_i.value = pack("roce_header_t", **header)
        if (receive := self.offer("receive", self.posts)) is not None:
            dut.receive_i.value = pack("receive_request_t", **receive)
        if (control := self.offer("control", self.controls)) is not None:
            operation, qp, argument = control
            dut.control_i.value = pack(
                "control_t", operation=constant(f"Control{operation}"), qp=qp, argument=argument
            )
        if (permission := self.offer("permission", self.permissions)) is not None:
            dut.permission_qp_i.value, dut.permission_access_i.value = permission
        if (fault := self.offer("fail", self.faults)) is not None:
            dut.fail_i.value = fault
        # Pulses.
        dut.answered_valid_i.value = int(bool(self.answered))
        if self.answered:
            qp = self.answered.popleft()
            dut.answered_qp_i.value = qp
            self.late_answers.append((self.cycle + 2, qp))
        dut.credit_return_valid_i.value = int(bool(self.host_returns))
        if self.host_returns:
            size = self.host_returns.popleft()
            dut.credit_return_i.value = size
            self.late_credits.append((self.cycle + 2, size))
        dut.rpc_free_i.value = int(bool(self.rpc_returns))
        if self.rpc_returns:
            self.rpc_returns.popleft()
            self.late_calls.append(self.cycle + 1)
        dut.query_valid_i.value = int(bool(self.queries))
        if self.queries:
            dut.query_index_i.value = self.queries[0]
        # Tables.
        if self.lookup is not None:
            dut.table_data_i.value = pack("queue_pair_t", **self.table.get(self.lookup, {}))
            self.lookup = None
        if self.grants[0] is not None:
            dut.grant_i.value = self.grants[0]
        dut.verdict_ready_i.value = int(self.chance.random() < self.open_verdict)
        dut.fail_ready_i.value = int(not self.slow or self.chance.random() < 0.3)
        await ReadOnly()
        self.observe()
        await RisingEdge(dut.clk_i)
        self.cycle += 1

    def observe(self):
        dut = self.dut
        while self.late_answers and self.late_answers[0][0] <= self.cycle:
            self.accepted.append(("Answered", self.late_answers.popleft()[1], 0))
        if int(dut.table_read_o.value):
            self.lookup = int(dut.table_index_o.value)
        grant = None
        if int(dut.check_valid_o.value):
            grant = self.check(unpack("access_request_t", dut.check_o.value))
        self.grants.append(grant)
        self.region_history.append(self.regions)
        # The accepted events, in order. A receive request is read two cycles after the decision to take one.
        if int(dut.accept.value):
            packed = int(dut.accepted.value)
            kind, qp, argument = EVENTS[packed >> 34], packed >> 24 & 0x1FF, packed & 0xFFFFFF
            body = {"Header": self.held.get("header"), "Post": self.held.get("receive")}.get(kind)
            self.accepted.append((kind, qp, argument, body))
            if kind == "Header":
                self.latency[id(body)] = self.cycle
            elif kind == "Kept":
                place, deferred = self.kept.queued.popleft()
                self.accepted[-1] = (kind, qp, deferred, self.kept.headers[place])
                # It is with the responder now; its place is returned later.
                self.kept.valid.discard(place)
                self.back = None
        if int(dut.reserve_o.value):
            header = unpack("roce_header_t", dut.reserve_header_o.value)
            self.kept.headers[self.kept.free()[0]] = header
        self.reserves.append(int(dut.reserve_o.value))
        if int(dut.reorder_valid_o.value):
            self.kept.command(RESPONDER_TYPES.unpack("reorder_command_t", dut.reorder_o.value))
        self.searched = int(dut.search_qp_o.value), int(dut.search_psn_o.value)
        self.taken("header", self.headers)
        self.taken("receive", self.posts)
        for name, queue in (("control", self.controls), ("permission", self.permissions), ("fail", self.faults)):
            self.taken(name, queue)
        if int(dut.s5_valid_q.value):
            self.decide()
        if int(dut.verdict_valid_o.value) and int(dut.verdict_ready_i.value):
            self.verdict(unpack("placement_t", dut.verdict_o.value))
        if int(dut.fail_valid_o.value) and int(dut.fail_ready_i.value):
            self.fails.append(int(dut.fail_o.value))
            assert self.fails == self.model.fails[: len(self.fails)]
        if events := int(dut.events_o.value):
            for name, pulse in unpack("responder_events_t", events).items():
                self.events[name] = self.events.get(name, 0) + pulse
        self.done += int(dut.control_done_o.value)
        if int(dut.query_done_o.value):
            answer = unpack("responder_query_t", dut.query_o.value)
            assert answer == self.query_expected, (answer, self.query_expected)
            self.answers.append(answer)
            self.queries.popleft()

    def check(self, request):
        verdict, region = model.check(
            self.regions, request["remote"], request["key"], request["domain"], request["address"], request["bytes"],
            pack("access_t", **request["needs"]),
        )
        if region is None:
            # Fields other than the verdict are undefined.
            return self.chance.getrandbits(width("access_grant_t")) & ~(7 << (width("access_grant_t") - 3)) | (
                verdict << (width("access_grant_t") - 3)
            )
        return pack(
            "access_grant_t", verdict=verdict, target=region.target, write_through=region.write_through,
            rpc=region.rpc, slot=region.slot,
        )

    def decide(self):
        """The model processes an event in the cycle in which the module decides."""
        twin = self.model
        while self.late_credits and self.late_credits[0][0] <= self.cycle:
            twin.host_credits += self.late_credits.popleft()[1]
        while self.late_calls and self.late_calls[0] <= self.cycle:
            self.late_calls.popleft()
            twin.rpc_credits = min(twin.rpc_credits + 1, twin.rpc_limit)
        while True:
            kind, qp, argument, *body = self.accepted.popleft()
            if kind != "Answered":
                break
            twin.pair(qp).waiting -= 1
        expected = []
        if kind == "Header":
            expected = twin.header(body[0], self.region_history[0], reserved=bool(self.reserves[0]))
        elif kind == "Kept":
            header = {**body[0], "payload_offset": 0, "marked": 0}
            expected = twin.header(header, self.region_history[0], again=True, deferred=argument)
        elif kind == "Post":
            expected = twin.post(body[0])
        elif kind == "Query":
            pair = twin.pair(qp)
            self.query_expected = {
                "state": pair.state, "access": unpack("access_t", pair.access), "expected": pair.expected % (1 << 24),
                "receives": len(pair.receives) + self.unflushed.get(qp, 0),
            }
        elif kind == "Flush":
            self.unflushed[qp] = max(0, self.unflushed.get(qp, 0) - 1)
        elif kind == "Reset" and self.unflushed.get(qp):
            # The RESET waits, and is repeated.
            return
        elif kind != "Nothing":
            expected = twin.control(qp, kind, argument)
        for verdict in expected:
            if verdict["packet"] or "marker" in verdict:
                self.in_order.append(verdict)
            else:
                self.flushes.setdefault(verdict["qp"], deque()).append(verdict)
                self.unflushed[verdict["qp"]] = self.unflushed.get(verdict["qp"], 0) + 1

    def verdict(self, packed):
        """Compares the defined fields of a verdict."""
        consequence = packed["consequence"]
        answer = consequence["answer"]
        got = {"packet": packed["packet"], "qp": consequence["qp"]}
        if consequence["marker"]:
            got["marker"] = 1
        place = next(name for name in PLACES if constant(name) == packed["place"])
        if packed["packet"]:
            got["place"] = place
        names = ["target", "write_through", "address"] if place not in ("PlaceNothing", "PlaceReorder") else []
        names += {
            "PlaceNothing": [], "PlaceWrite": ["bytes", "offset", "snoop"], "PlaceFetchAdd": ["swap_or_add"],
            "PlaceCompareSwap": ["swap_or_add", "compare"], "PlaceReorder": ["bytes", "offset"],
        }[place]
        got.update({name: packed[name] for name in names})
        if place != "PlaceWrite":
            assert not packed["snoop"]
        if consequence["complete"]:
            completion = consequence["completion"]
            assert completion["qp"] == consequence["qp"] and not completion["vendor_error"]
            names = ["id", "status"]
            if not completion["status"]:
                names += ["opcode", "bytes", "has_immediate"] + ["immediate"] * completion["has_immediate"]
            got["complete"] = {name: completion[name] for name in names}
        if consequence["call"]:
            call = consequence["rpc"]
            got["rpc"] = {name: call[name] for name in call if name != "immediate" or call["has_immediate"]}
            self.called += 1
        if answer["kind"]:
            kind = next(name for name in ANSWERS if constant(name) == answer["kind"])
            names = ["duplicate", "psn", "msn", "syndrome"]
            if kind in ("AnswerRead", "AnswerAtomic"):
                names += ["resource"] + ["address", "rkey", "length"] * (kind == "AnswerRead")
            if kind == "AnswerRefuse":
                names += ["kept"] * (answer["syndrome"] == SEQUENCE)
            elif not answer["duplicate"]:
                names += ["next", "report"] + ["kept"] * answer["report"]
            got["answer"] = {"kind": kind, **{name: answer[name] for name in names}}
            if kind in ("AnswerRead", "AnswerAtomic") and not answer["duplicate"]:
                self.owed.append(consequence["qp"])
        if place == "PlaceWrite" and packed["target"] == model.HOST:
            self.spent.append(packed["bytes"])
        queue = self.in_order if got["packet"] or "marker" in got else self.flushes.get(got["qp"], deque())
        assert queue, f"unexpected {got}"
        expected = queue.popleft()
        if "next" not in expected.get("answer", ()) and "answer" in got:
            # The packet was not executed.
            assert not got["answer"].pop("report", 0)
            got["answer"].pop("next", None)
        assert got == expected, f"\n got      {got}\n expected {expected}"
        self.verdicts.append(got)

    def busy(self):
        queues = (
            self.headers, self.posts, self.controls, self.permissions, self.faults, self.answered, self.host_returns,
            self.rpc_returns, self.queries,
        )
        return any(queues) or not int(self.dut.idle_o.value)

    async def drain(self, limit=2_000):
        await self.step()
        for _ in range(limit):
            await self.step()
            if not self.busy():
                break
        else:
            waiting = {name: len(value) for name, value in vars(self).items() if isinstance(value, deque) and value}
            raise AssertionError(f"not idle: {waiting}, {self.held}")
        # Counter events follow one cycle later, pulses two.
        for _ in range(3):
            await self.step()
        assert not self.in_order and not any(self.flushes.values())

    def compare_counters(self):
        nonzero = {name: count for name, count in self.events.items() if count}
        assert nonzero == {name: count for name, count in self.model.events.items() if count}

    # Helpers for directed tests.

    async def run(self, *headers):
        """Sends these packets. Returns their verdicts, and those of other events in progress."""
        if self.posts:
            await self.drain()
        self.verdicts.clear()
        self.headers.extend(headers)
        await self.drain()
        return list(self.verdicts)

    async def one(self, header):
        return (await self.run(header))[0]

    async def answer(self):
        """Sends the first responses to all READs and atomics."""
        self.answered.extend(self.owed)
        self.owed.clear()
        await self.drain()

    async def connect(self, index, psn=100, access=FULL, **attributes):
        self.table[index] = {
            "number": number(index), "destination": PEER, "domain": 0, "path_mtu": 1, "max_dest_rd_atomic": 4,
            "min_rnr_timer": 12,
            **attributes,
        }
        self.controls.extend([("Reset", index, 0), ("Init", index, access), ("Receive", index, psn)])
        await self.drain()
        return Sender(self, index, psn)


PLACES = ["PlaceNothing", "PlaceWrite", "PlaceFetchAdd", "PlaceCompareSwap", "PlaceReorder"]
ANSWERS = ["AnswerAcknowledge", "AnswerRefuse", "AnswerRead", "AnswerAtomic"]


class Sender:
    """A peer that builds packets; each call uses the next PSN unless one is given."""

    def __init__(self, harness, index, psn):
        self.harness, self.index, self.psn = harness, index, psn

    def packet(self, opcode, psn=None, takes=1, **fields):
        if psn is None:
            psn = self.psn
            self.psn = (self.psn + takes) & model.MASK
        header = {
            "opcode": opcode, "solicited": 0, "acknowledge_request": 1, "marked": 0,
            "partition_key": 0xFFFF, "destination_qp": number(self.index), "psn": psn,
            "source": PEER, "address": 0x1000, "rkey": RKEY, "length": 0, "swap_or_add": 0, "compare": 0,
            "immediate": 0, "syndrome": 0, "msn": 0, "payload_offset": 70, "payload_bytes": 0,
        }
        header.update(fields)
        return header

    def write(self, size, opcode=WRITE_ONLY, **fields):
        return self.packet(opcode, length=size, payload_bytes=size, **fields)

    def post(self, id, length=256, address=0x1000, lkey=None):
        lkey = LKEY if lkey is None else lkey
        self.harness.posts.append(
            {"qp": self.index, "id": id, "address": address, "length": length, "lkey": lkey}
        )


RKEY, LKEY = 0x1000_0401, 0x2000_0401
CARD_RKEY, CARD_LKEY = 0x1000_0402, 0x2000_0402
CALL_RKEY, CALL_LKEY = 0x1000_0403, 0x2000_0403


def regions():
    return {
        1: Region(LKEY, RKEY, 0x1000, 0x4000, FULL, target=model.HOST),
        2: Region(CARD_LKEY, CARD_RKEY, 0x8000, 0x8000, FULL, target=2, write_through=1),
        3: Region(CALL_LKEY, CALL_RKEY, 0x1000, 0x1000, FULL, target=1, rpc=1, slot=3),
    }


async def begin(dut, **options):
    harness = Bench(dut, **options)
    harness.regions = regions()
    harness.region_history = deque([harness.regions] * 4, maxlen=4)
    await harness.start()
    return harness


def refusal(verdict, syndrome, psn, msn=0):
    answer = verdict["answer"]
    assert (answer["kind"], answer["syndrome"], answer["psn"], answer["msn"]) == ("AnswerRefuse", syndrome, psn, msn)
    assert verdict["place"] == "PlaceNothing"


def acknowledged(verdict, psn, msn, duplicate=0):
    answer = verdict["answer"]
    assert (answer["kind"], answer["psn"], answer["msn"], answer["duplicate"]) == (
        "AnswerAcknowledge", psn, msn, duplicate,
    )


def dropped(verdict):
    assert verdict["place"] == "PlaceNothing" and "answer" not in verdict and "complete" not in verdict


@cocotb.test()
async def writes_a_segmented_message(dut):
    harness = await begin(dut)
    peer = await harness.connect(5)
    first, middle, last = await harness.run(
        peer.packet(WRITE_FIRST, length=600, payload_bytes=256, acknowledge_request=0),
        peer.packet(WRITE_MIDDLE, payload_bytes=256, acknowledge_request=0, payload_offset=54, address=9, rkey=9),
        peer.packet(WRITE_LAST, payload_bytes=88, payload_offset=54, address=9, rkey=9),
    )
    assert first == {
        "packet": 1, "qp": 5, "place": "PlaceWrite", "target": 3, "write_through": 0, "address": 0x1000, "bytes": 256,
        "offset": 70, "snoop": 0,
    }
    assert middle["address"] == 0x1100 and "answer" not in middle
    assert (last["address"], last["bytes"]) == (0x1200, 88)
    acknowledged(last, 102, 1)
    harness.compare_counters()


@cocotb.test()
async def latency_is_as_the_header_says(dut):
    harness = await begin(dut)
    peers = [await harness.connect(index) for index in range(12)]
    start = harness.cycle
    harness.verdicts.clear()
    harness.headers.append(peers[0].write(64))
    while not harness.verdicts:
        await harness.step()
    # The header is offered in the first of these cycles, and the verdict accepted in the last.
    assert harness.cycle - start == 8
    await harness.drain()
    start = harness.cycle
    harness.headers.extend(peers[index].write(64, rkey=CARD_RKEY, address=0x8000) for _ in range(4) for index in range(12))
    while harness.headers:
        await harness.step()
    assert harness.cycle - start == 48, "one packet a cycle"
    await harness.drain()
    harness.compare_counters()


@cocotb.test()
async def drops_what_is_not_for_it(dut):
    harness = await begin(dut)
    peer = await harness.connect(7)
    harness.table[8] = {"number": number(8), "destination": PEER, "domain": 0, "path_mtu": 1}
    for fields, counter, count in (
        ({"destination_qp": 0x400 | 7}, "drop_unknown_queue_pair", 1),
        ({"destination_qp": 9}, "drop_unknown_queue_pair", 2),
        ({"partition_key": 0x8001}, "drop_partition_key", 1),
        ({"destination_qp": number(8)}, "drop_wrong_state", 1),
        ({"source": PEER + 1}, "drop_wrong_source", 1),
        ({"opcode": 0x15}, "drop_malformed", 1),
    ):
        dropped(await harness.one({**peer.write(8, psn=100), **fields}))
        assert harness.events[counter] == count, counter
    acknowledged(await harness.one(peer.write(8, partition_key=0x7FFF)), 100, 1)
    harness.controls.append(("Error", 7, 0))
    await harness.drain()
    dropped(await harness.one(peer.write(8)))
    assert harness.events["drop_wrong_state"] == 2
    harness.compare_counters()


@cocotb.test()
async def refuses_and_ends_the_connection(dut):
    """Every refusal: its syndrome, the completions, and the state of the requester and of later packets."""
    harness = await begin(dut)
    harness.regions = {
        **regions(),
        4: Region(4, 0x404, 0x1000, 0x100, FULL, domain=9),
        5: Region(5, 0x405, 0x1000, 0x100, model.REMOTE_READ),
    }
    cases = [
        (dict(opcode=WRITE_MIDDLE, payload_bytes=256), INVALID, None),
        (dict(opcode=SEND_LAST, payload_bytes=8), INVALID, None),
        (dict(opcode=WRITE_ONLY, length=8, payload_bytes=7), INVALID, None),
        (dict(opcode=WRITE_ONLY, length=300, payload_bytes=300), INVALID, None),
        (dict(opcode=WRITE_FIRST, length=300, payload_bytes=255), INVALID, None),
        (dict(opcode=WRITE_FIRST, length=256, payload_bytes=256), INVALID, None),
        (dict(opcode=READ, length=0x8000_0001), INVALID, None),
        (dict(opcode=FETCH_ADD, address=0x1004), INVALID, None),
        (dict(opcode=WRITE_ONLY, length=8, payload_bytes=8, rkey=LKEY), ACCESS, "violation_key"),
        (dict(opcode=WRITE_ONLY, length=8, payload_bytes=8, rkey=0x404), ACCESS, "violation_domain"),
        (dict(opcode=WRITE_ONLY, length=8, payload_bytes=8, address=0x4FF9), ACCESS, "violation_bounds"),
        (dict(opcode=WRITE_ONLY, length=8, payload_bytes=8, address=0xFFFF_FFFF_FFFF_FFFC), ACCESS, "violation_bounds"),
        (dict(opcode=WRITE_FIRST, length=0x4001, payload_bytes=256), ACCESS, "violation_bounds"),
        (dict(opcode=WRITE_ONLY, length=8, payload_bytes=8, rkey=0x405), ACCESS, "violation_permission"),
        (dict(opcode=COMPARE_SWAP, rkey=0x405), ACCESS, "violation_permission"),
        (dict(opcode=READ, length=8, rkey=LKEY), ACCESS, "violation_key"),
    ]
    for index, (fields, syndrome, counter) in enumerate(cases):
        peer = await harness.connect(index)
        peer.post(50)
        verdict, flush = await harness.run(peer.packet(**fields))
        refusal(verdict, syndrome, 100)
        assert flush == {"packet": 0, "qp": index, "complete": {"id": 50, "status": 5}}
        assert harness.fails == list(range(index + 1))
        if counter:
            assert harness.events[counter]
        dropped(await harness.one(peer.write(8, psn=100)))
    harness.compare_counters()


@cocotb.test()
async def refuses_what_the_queue_pair_does_not_allow(dut):
    harness = await begin(dut)
    for index, (needs, fields) in enumerate((
        (model.REMOTE_WRITE, dict(opcode=WRITE_ONLY, length=8, payload_bytes=8)),
        (model.REMOTE_READ, dict(opcode=READ, length=8)),
        (model.REMOTE_ATOMIC, dict(opcode=FETCH_ADD)),
    )):
        peer = await harness.connect(index, access=FULL & ~needs)
        refusal(await harness.one(peer.packet(**fields)), INVALID, 100)
        assert harness.events["violation_permission"] == index + 1
    # Requests that access no memory need no access rights.
    peer = await harness.connect(10, access=0)
    acknowledged(await harness.one(peer.packet(WRITE_ONLY, rkey=0)), 100, 1)
    assert (await harness.one(peer.packet(READ, rkey=0)))["answer"]["kind"] == "AnswerRead"
    # Order of the checks: an invalid order of packets, then a missing access right, then a wrong length.
    peer = await harness.connect(11, access=0)
    refusal(await harness.one(peer.packet(WRITE_ONLY, length=8, payload_bytes=7)), INVALID, 100)
    assert harness.events["violation_permission"] == 4
    harness.compare_counters()


@cocotb.test()
async def receives_sends(dut):
    harness = await begin(dut)
    peer = await harness.connect(3)
    refusal(await harness.one(peer.packet(SEND_ONLY, psn=100, payload_bytes=8)), 0x20 | 12, 100)
    # Packets sent behind the refused one are dropped without another refusal.
    dropped(await harness.one(peer.packet(SEND_ONLY, psn=101, payload_bytes=8)))
    peer.post(70, length=600, address=0x1200)
    peer.post(71, length=0, lkey=0)
    peer.post(72, address=0x8000, lkey=CARD_LKEY)
    first, middle, last = await harness.run(
        peer.packet(SEND_FIRST, payload_bytes=256), peer.packet(SEND_MIDDLE, payload_bytes=256),
        peer.packet(SEND_LAST, payload_bytes=88),
    )
    assert [verdict["address"] for verdict in (first, middle, last)] == [0x1200, 0x1300, 0x1400]
    assert "complete" not in middle
    assert last["complete"] == {"id": 70, "status": 0, "opcode": 128, "bytes": 600, "has_immediate": 0}
    acknowledged(last, 102, 1)
    empty, card = await harness.run(
        peer.packet(SEND_ONLY), peer.packet(SEND_ONLY_IMMEDIATE, payload_bytes=9, immediate=0xABCD)
    )
    assert empty["place"] == "PlaceNothing" and empty["complete"]["id"] == 71
    assert card["target"] == 2 and card["write_through"] == 1
    assert card["complete"] == {
        "id": 72, "status": 0, "opcode": 128, "bytes": 9, "has_immediate": 1, "immediate": 0xABCD,
    }
    # Longer than the buffer of its receive request.
    peer.post(73, length=300)
    peer.post(74)
    _, long, flush = await harness.run(
        peer.packet(SEND_FIRST, payload_bytes=256), peer.packet(SEND_LAST, payload_bytes=45)
    )
    refusal(long, INVALID, 106, 3)
    assert long["complete"] == {"id": 73, "status": 1} and flush["complete"] == {"id": 74, "status": 5}
    # A receive request whose buffer is not in its region: wrong key, or an address past the end.
    for address, lkey in ((0x1000, RKEY), (0xFFFF_FFFF_FFFF_FF00, LKEY), (0x4FF0, LKEY)):
        peer = await harness.connect(3)
        peer.post(75, length=600, address=address, lkey=lkey)
        wrong = await harness.one(peer.packet(SEND_FIRST, payload_bytes=256))
        refusal(wrong, OPERATIONAL, 100)
        assert wrong["complete"] == {"id": 75, "status": 4}
    harness.compare_counters()


@cocotb.test()
async def write_with_immediate_takes_a_receive_request(dut):
    harness = await begin(dut)
    peer = await harness.connect(3)
    refusal(await harness.one(peer.write(8, WRITE_ONLY_IMMEDIATE, psn=100, immediate=7)), 0x20 | 12, 100)
    peer.post(60)
    first, last = await harness.run(
        peer.packet(WRITE_FIRST, length=300, payload_bytes=256),
        peer.packet(WRITE_LAST_IMMEDIATE, payload_bytes=44, immediate=7),
    )
    assert "complete" not in first
    assert last["complete"] == {
        "id": 60, "status": 0, "opcode": 129, "bytes": 300, "has_immediate": 1, "immediate": 7,
    }
    harness.compare_counters()


@cocotb.test()
async def reports_a_gap_once_and_acknowledges_duplicates(dut):
    harness = await begin(dut)
    peer = await harness.connect(3, psn=10)
    acknowledged(await harness.one(peer.write(8)), 10, 1)
    refusal(await harness.one(peer.write(8, psn=12, marked=1)), SEQUENCE, 11, 1)
    dropped(await harness.one(peer.write(8, psn=13, marked=1)))
    # The start of the gap is filled; packets behind it have been dropped.
    answer = (await harness.one(peer.write(8)))["answer"]
    assert answer["syndrome"] == SEQUENCE
    assert (await harness.one(peer.write(8)))["answer"]["syndrome"] == SEQUENCE or peer.psn == 13
    answer = (await harness.one(peer.write(8)))["answer"]
    assert answer["syndrome"] == constant("SyndromeAck") and answer["psn"] == 13
    duplicate = await harness.one(peer.write(8, psn=11))
    acknowledged(duplicate, 13, 4, duplicate=1)
    assert duplicate["place"] == "PlaceNothing"
    # A new gap is reported with a new NAK.
    refusal(await harness.one(peer.write(8, psn=15)), SEQUENCE, 14, 4)
    assert harness.events["out_of_seq_request"] == 3 and harness.events["drop_out_of_sequence"] == 1
    harness.compare_counters()


@cocotb.test()
async def psn_wraps(dut):
    harness = await begin(dut)
    peer = await harness.connect(3, psn=0xFFFFFE)
    refusal(await harness.one(peer.write(8, psn=1)), SEQUENCE, 0xFFFFFE)
    for psn, msn in ((0xFFFFFE, 1), (0xFFFFFF, 2), (0, 3), (1, 4)):
        acknowledged(await harness.one(peer.write(8)), psn, msn)
    acknowledged(await harness.one(peer.write(8, psn=0xFFFFFF)), 1, 4, duplicate=1)
    # PSNs in the half of the space from the expected one on are ahead, the others are behind.
    acknowledged(await harness.one(peer.write(8, psn=0x800002)), 1, 4, duplicate=1)
    refusal(await harness.one(peer.write(8, psn=0x800001)), SEQUENCE, 2, 4)
    # A READ can be as long as half of the PSN space. A packet ahead of it is still a gap; no other PSN is.
    harness.regions = {1: Region(LKEY, RKEY, 0, 1 << 40, FULL)}
    read = await harness.one(peer.packet(READ, length=1 << 31, takes=1 << 23))
    assert read["answer"]["syndrome"] == constant("SyndromeAck")
    acknowledged(await harness.one(peer.write(8)), 0x800002, 6)
    again = await harness.one(peer.packet(READ, psn=3, address=0x1100, length=(1 << 31) - 256))
    assert again["answer"]["duplicate"] == 1 and again["answer"]["psn"] == 3
    harness.compare_counters()


@cocotb.test()
async def answers_reads_and_atomics_again(dut):
    harness = await begin(dut)
    peer = await harness.connect(6)
    read, add, compare = await harness.run(
        peer.packet(READ, length=600, takes=3), peer.packet(FETCH_ADD, swap_or_add=5, address=0x1008),
        peer.packet(COMPARE_SWAP, swap_or_add=6, compare=7, address=0x8010, rkey=CARD_RKEY),
    )
    assert read["answer"] == {
        "kind": "AnswerRead", "duplicate": 0, "psn": 100, "next": 103, "msn": 1, "syndrome": 0x1F,
        "resource": 0, "address": 0x1000, "rkey": RKEY, "length": 600, "report": 0,
    }
    assert add["place"] == "PlaceFetchAdd" and add["answer"]["psn"] == 103
    assert compare["place"] == "PlaceCompareSwap" and compare["compare"] == 7 and compare["answer"]["psn"] == 104
    await harness.answer()
    # Duplicates of the whole READ, of parts of it, and of the atomics.
    for psn, fields in ((100, dict(address=0x1000, length=600)), (101, dict(address=0x1100, length=344)),
                        (102, dict(address=0x1200, length=88)), (102, dict(address=0x1200, length=50))):
        answer = (await harness.one(peer.packet(READ, psn=psn, **fields)))["answer"]
        assert answer["kind"] == "AnswerRead" and answer["duplicate"] == 1 and answer["psn"] == psn
        assert (answer["address"], answer["length"]) == (fields["address"], fields["length"])
        assert answer["resource"] == 0
    for psn, opcode, original in ((103, COMPARE_SWAP, add), (104, COMPARE_SWAP, compare)):
        again = await harness.one(peer.packet(opcode, psn=psn))
        assert again["answer"]["kind"] == "AnswerAtomic" and again["place"] == "PlaceNothing"
        assert again["answer"]["resource"] == original["answer"]["resource"] and again["answer"]["duplicate"] == 1
    # Duplicates that differ from their originals.
    for fields in (
        dict(opcode=READ, psn=100, length=601), dict(opcode=READ, psn=101, length=8),
        dict(opcode=READ, psn=100, length=600, rkey=CARD_RKEY), dict(opcode=READ, psn=103, length=8),
        dict(opcode=FETCH_ADD, psn=101), dict(opcode=READ, psn=99, length=600), dict(opcode=READ, psn=104),
    ):
        dropped(await harness.one(peer.packet(**fields)))
    assert harness.events["drop_unknown_duplicate"] == 7
    # The oldest resources are reused.
    await harness.run(*(peer.packet(FETCH_ADD) for _ in range(3)))
    dropped(await harness.one(peer.packet(FETCH_ADD, psn=103)))
    assert harness.events["drop_unknown_duplicate"] == 8
    harness.compare_counters()


@cocotb.test()
async def acknowledges_a_duplicate_up_to_the_next_read_or_atomic(dut):
    harness = await begin(dut)
    peer = await harness.connect(6, psn=0xFFFFFA, max_dest_rd_atomic=3)
    await harness.run(
        peer.write(8), peer.write(8), peer.packet(READ, length=600, takes=3), peer.write(8), peer.write(8),
        peer.packet(FETCH_ADD), peer.write(8),
    )
    # The result must not depend on whether the responses have been sent.
    for _ in range(2):
        for psn, up_to in ((0xFFFFFA, 0xFFFFFB), (0xFFFFFB, 0xFFFFFB), (0xFFFFFF, 0), (0, 0), (2, 2)):
            acknowledged(await harness.one(peer.write(8, psn=psn)), up_to, 7, duplicate=1)
        await harness.answer()
    # Requests that are no longer kept have been completed by the requester.
    await harness.run(peer.packet(READ, length=0), peer.packet(READ, length=8), peer.write(8))
    acknowledged(await harness.one(peer.write(8, psn=0xFFFFFB)), 0, 10, duplicate=1)
    acknowledged(await harness.one(peer.write(8, psn=2)), 2, 10, duplicate=1)
    acknowledged(await harness.one(peer.write(8, psn=5)), 5, 10, duplicate=1)
    await harness.answer()
    # All resources are behind the duplicate, which makes the longest search.
    peer = await harness.connect(7, max_dest_rd_atomic=16)
    await harness.one(peer.write(8))
    for _ in range(17):
        await harness.one(peer.packet(FETCH_ADD))
        await harness.answer()
    start = harness.cycle
    harness.verdicts.clear()
    harness.headers.append(peer.write(8, psn=100))
    while not harness.verdicts:
        await harness.step()
    acknowledged(harness.verdicts[0], 101, 18, duplicate=1)
    assert harness.cycle - start <= 8 + 20
    await harness.drain()
    harness.compare_counters()


@cocotb.test()
async def limits_answers_that_are_due(dut):
    harness = await begin(dut)
    peer = await harness.connect(6, max_dest_rd_atomic=3)
    for resource in range(3):
        assert (await harness.one(peer.packet(FETCH_ADD)))["answer"]["resource"] == resource
    # Every duplicate is answered, each time, whether or not its first response has been sent.
    for _ in range(2):
        for psn in (101, 100, 102, 101, 101):
            answer = (await harness.one(peer.packet(FETCH_ADD, psn=psn)))["answer"]
            assert answer["duplicate"] == 1 and answer["resource"] == psn - 100
        await harness.answer()
    # Duplicates do not count as outstanding; a fourth new request is one too many.
    for resource in range(3):
        answer = (await harness.one(peer.packet(READ, length=8)))["answer"]
        assert answer["kind"] == "AnswerRead" and answer["resource"] == resource
    refusal(await harness.one(peer.packet(READ, length=8)), INVALID, 106, 6)
    # A new connection starts with the first resource, and may have more resources.
    await harness.answer()
    peer = await harness.connect(6, max_dest_rd_atomic=16)
    for resource in range(16):
        assert (await harness.one(peer.packet(FETCH_ADD)))["answer"]["resource"] == resource
    assert (await harness.one(peer.packet(FETCH_ADD, psn=100)))["answer"]["resource"] == 0
    await harness.answer()
    assert (await harness.one(peer.packet(FETCH_ADD)))["answer"]["resource"] == 0
    dropped(await harness.one(peer.packet(FETCH_ADD, psn=100)))
    assert (await harness.one(peer.packet(FETCH_ADD, psn=101)))["answer"]["resource"] == 1
    # A queue pair that allows no READs and atomics.
    peer = await harness.connect(8, max_dest_rd_atomic=0)
    refusal(await harness.one(peer.packet(READ, length=8)), INVALID, 100)
    harness.compare_counters()


@cocotb.test()
async def drops_without_credit(dut):
    harness = await begin(dut)
    peer = await harness.connect(2, path_mtu=5)
    acknowledged(await harness.one(peer.write(2000)), 100, 1)
    dropped(await harness.one(peer.write(49, psn=101)))
    assert harness.events["drop_no_credit"] == 1
    # WRITEs to card memory need no credit; the remaining credit can be used to the last byte.
    acknowledged(await harness.one(peer.write(64, rkey=CARD_RKEY, address=0x8000)), 101, 2)
    acknowledged(await harness.one(peer.write(48)), 102, 3)
    dropped(await harness.one(peer.write(1, psn=103)))
    harness.host_returns.append(2000)
    await harness.drain()
    acknowledged(await harness.one(peer.write(1999)), 103, 4)
    harness.compare_counters()


@cocotb.test()
async def calls_engines(dut):
    harness = await begin(dut)
    peer = await harness.connect(2)
    first, last = await harness.run(
        peer.packet(WRITE_FIRST, length=300, payload_bytes=256, rkey=CALL_RKEY, address=0x1010),
        peer.packet(WRITE_LAST_IMMEDIATE, payload_bytes=44, immediate=42),
    )
    assert first["snoop"] and "rpc" not in first and last["snoop"] and last["address"] == 0x1110
    assert last["rpc"] == {
        "slot": 3, "qp": 2, "target": 1, "address": 0x1010, "length": 300, "has_immediate": 1, "immediate": 42,
    }
    empty = await harness.one(peer.packet(WRITE_ONLY, rkey=CALL_RKEY))
    assert empty["rpc"]["length"] == 0 and empty["place"] == "PlaceNothing"
    # The queue of calls is full: the packet is dropped as if it had never arrived.
    dropped(await harness.one(peer.write(8, psn=103, rkey=CALL_RKEY)))
    assert harness.events["drop_rpc_queue_full"] == 1
    harness.rpc_returns.append(1)
    await harness.drain()
    assert "rpc" in await harness.one(peer.write(8, rkey=CALL_RKEY))
    # Without access rights, a WRITE of no bytes is executed, but calls no engine.
    harness.controls.append(("Access", 2, FULL & ~model.REMOTE_WRITE))
    harness.rpc_returns.append(1)
    await harness.drain()
    quiet = await harness.one(peer.packet(WRITE_ONLY, rkey=CALL_RKEY))
    assert "rpc" not in quiet and quiet["answer"]["kind"] == "AnswerAcknowledge"
    harness.compare_counters()


@cocotb.test()
async def revokes_between_packets_of_a_write(dut):
    harness = await begin(dut)
    # The access rights of the region and of the queue pair are revoked, by the driver and by an engine.
    for index, take in enumerate((
        lambda: setattr(harness, "regions", {1: Region(LKEY, RKEY, 0x1000, 0x4000, model.REMOTE_READ)}),
        lambda: harness.controls.append(("Access", 1, model.REMOTE_READ)),
        lambda: harness.permissions.append((2, model.REMOTE_READ)),
    )):
        harness.regions = regions()
        peer = await harness.connect(index)
        first = await harness.one(peer.packet(WRITE_FIRST, length=600, payload_bytes=256))
        assert first["place"] == "PlaceWrite"
        done = harness.done
        take()
        verdicts = await harness.run()
        assert verdicts == ([{"packet": 0, "qp": index, "marker": 1}] if index else [])
        assert harness.done - done == (index == 1)
        refusal(await harness.one(peer.packet(WRITE_MIDDLE, payload_bytes=256)), INVALID if index else ACCESS, 101)
    # A marker separates the verdicts before and after a change, which takes few cycles under load.
    peer = await harness.connect(3, access=FULL)
    harness.regions = regions()
    others = [await harness.connect(index) for index in range(10, 18)]
    harness.verdicts.clear()
    for _ in range(6):
        harness.headers.extend(other.write(8, rkey=CARD_RKEY, address=0x8000) for other in others)
    for _ in range(20):
        await harness.step()
    harness.permissions.append((3, 0))
    start = harness.cycle
    while not any("marker" in verdict for verdict in harness.verdicts):
        await harness.step()
    assert harness.cycle - start <= 10
    await harness.drain()
    refusal(await harness.one(peer.write(8)), INVALID, 100)
    harness.compare_counters()


@cocotb.test()
async def follows_the_states(dut):
    harness = await begin(dut)
    peer = await harness.connect(4)
    # A receive request posted in RESET is dropped; in INIT it is kept.
    harness.controls.append(("Reset", 4, 0))
    await harness.drain()
    peer.post(1)
    await harness.drain()
    assert harness.events["drop_receive_request"] == 1
    harness.controls.append(("Init", 4, FULL))
    await harness.drain()
    for id in range(65):
        peer.post(id)
    await harness.drain()
    assert harness.events["drop_receive_request"] == 2, "the ring has 64 places"
    harness.queries.append(4)
    await harness.drain()
    assert harness.answers[-1]["receives"] == 64 and harness.answers[-1]["state"] == model.INIT
    harness.controls.extend([("Receive", 4, 0x123456), ("Send", 4, 0)])
    harness.queries.append(4)
    await harness.drain()
    harness.queries.append(4)
    await harness.drain()
    assert harness.answers[-1]["state"] == model.READY and harness.answers[-1]["expected"] == 0x123456
    # A fault of the requester flushes receive requests in order, and every later post at once.
    harness.verdicts.clear()
    harness.faults.append(4)
    await harness.drain()
    assert [verdict["complete"]["id"] for verdict in harness.verdicts] == list(range(64))
    harness.verdicts.clear()
    peer.post(200)
    await harness.drain()
    assert harness.verdicts == [{"packet": 0, "qp": 4, "complete": {"id": 200, "status": 5}}]
    assert not harness.fails, "the other half knows"
    # RESET drops receive requests without completions.
    peer = await harness.connect(4)
    peer.post(1)
    await harness.drain()
    harness.verdicts.clear()
    harness.controls.append(("Reset", 4, 0))
    await harness.drain()
    assert not harness.verdicts
    peer = await harness.connect(4)
    refusal(await harness.one(peer.packet(SEND_ONLY)), 0x20 | 12, 100)
    harness.compare_counters()


@cocotb.test()
async def many_faults_at_once(dut):
    harness = await begin(dut)
    peers = [await harness.connect(index) for index in range(40)]
    for peer in peers:
        peer.post(peer.index)
        peer.post(100 + peer.index)
    await harness.drain()
    harness.verdicts.clear()
    # All at once: requests that are refused, faults of the requester, and commands of the driver.
    harness.headers.extend(peer.packet(WRITE_MIDDLE, payload_bytes=256) for peer in peers[:20])
    harness.faults.extend(range(20, 30))
    harness.controls.extend(("Error", index, 0) for index in range(30, 40))
    harness.open_verdict = 0.2
    await harness.drain()
    assert sum("complete" in verdict for verdict in harness.verdicts) == 80
    assert harness.fails == list(range(20))
    harness.compare_counters()


class Traffic:
    """Random packets, mostly those that a peer would send, for queue pairs without packets in flight."""

    def __init__(self, harness, chance, indexes):
        self.harness, self.chance, self.indexes = harness, chance, indexes

    def access(self):
        return FULL if self.chance.random() < 0.95 else self.chance.randrange(16)

    def act(self):
        chance, harness = self.chance, self.harness
        index = chance.choice(self.indexes)
        pair = harness.model.pair(index)
        what = chance.random()
        if pair.state != model.READY and what < 0.8:
            if len(harness.controls) < 4:
                psn = chance.choice((0, 0xFFFFF0, 0x7FFFF8, chance.getrandbits(24)))
                harness.controls.extend([("Reset", index, 0), ("Init", index, self.access()), ("Receive", index, psn)])
            return
        if what < 0.2:
            length = chance.choice((0, 8, 256, 300, 1000))
            region = chance.choice(list(harness.regions.values()))
            lkey = region.lkey if chance.random() < 0.95 else region.rkey
            harness.posts.append({
                "qp": index, "id": chance.getrandbits(64), "address": region.base + chance.randrange(0x100),
                "length": length, "lkey": lkey,
            })
        elif what < 0.23:
            harness.permissions.append((index, self.access()))
        elif what < 0.25 and len(harness.controls) < 4:
            harness.controls.append((chance.choice(("Access", "Access", "Send", "Init")), index, self.access()))
        elif what < 0.253:
            harness.controls.append(("Error", index, 0))
        elif what < 0.256:
            harness.faults.append(index)
        elif what < 0.28 and not harness.queries:
            harness.queries.append(index)
        elif what < 0.30:
            table = regions()
            table[4] = Region(4, 0x404, 0x1000, 0x1000, FULL, domain=9)
            if chance.random() < 0.3:
                table[chance.randrange(1, 4)].access = chance.randrange(16)
            harness.regions = table
        else:
            burst = [self.packet(index, pair)]
            if chance.random() < 0.2:
                burst *= 2
            harness.headers.extend(burst)

    def packet(self, index, pair):
        chance = self.chance
        mtu = 128 << self.harness.table[index]["path_mtu"]
        psn = pair.expected
        fields = {}
        inbound = pair.inbound
        region = self.harness.regions[chance.choice((1, 1, 1, 2, 3))]
        key = region.rkey if chance.random() < 0.99 else chance.choice((region.lkey, 0x404))
        address = region.base + 8 * chance.randrange(0x40)
        noise = chance.random()
        if inbound and noise > 0.03:
            kind = 0 if inbound["kind"] == "send" else 6
            rest = inbound.get("length", inbound["done"] + chance.choice((10, 256, 300, mtu))) - inbound["done"]
            if kind == 0 and pair.receives:
                rest = min(rest, max(0, pair.receives[0]["length"] - inbound["done"])) or rest
            opcode = 1 + kind if rest > mtu else kind + chance.choice((2, 3))
            fields = {"payload_bytes": min(rest, mtu)}
        else:
            opcode = chance.choice((0, 4, 4, 5, 6, 6, 10, 10, 11, 12, 12, 19, 20))
            size = chance.choice((0, 1, 8, 64, mtu, mtu))
            if opcode in (0, 6):
                size = mtu
            length = size if opcode != 6 else mtu + chance.choice((1, 60, mtu, mtu + 9))
            if opcode == READ:
                length, size = chance.choice((0, 8, 255, 256, 700, 2000)), 0
            fields = {"payload_bytes": size if opcode < 12 else 0, "length": length}
            if opcode > 12 and chance.random() < 0.03:
                address += 4
            if chance.random() < 0.02:
                end = region.base + region.length
                address = chance.choice((end, end - 8, region.base - 8, (1 << 64) - 8))
        if noise < 0.02:
            fields["payload_bytes"] = chance.choice((0, 1, 255, 257))
        elif noise < 0.03:
            opcode = chance.choice((*range(13), 0x13, 0x14, 0x15, 0xFF))
        elif noise < 0.10:
            psn += chance.choice((1, 1, 2, 3, 9, 0x7FFFFF))
        elif noise < 0.25:
            psn -= chance.choice((1, 1, 2, 3, 9, 20, 0x800000))
            if pair.saved and chance.random() < 0.7:
                saved = chance.choice(pair.saved)
                packet = chance.randrange(saved["packets"])
                psn = saved["first"] + packet
                opcode = READ if saved["kind"] == "read" else chance.choice((19, 20))
                offset = packet * mtu
                address, key = saved["address"] + offset, saved["rkey"]
                fields = {"length": max(0, saved["length"] - offset)}
                if chance.random() < 0.1:
                    fields["length"] += chance.choice((1, -1)) if fields["length"] else 1
        elif noise < 0.27:
            fields.update(chance.choice((
                {"source": PEER + 1}, {"partition_key": 0x1234}, {"destination_qp": 0x400 | index},
                {"destination_qp": index},
            )))
        if self.harness.kept.places and not inbound and 0.27 < noise < 0.8:
            # A request that can be executed in its turn; often it is early.
            opcode = chance.choice((10, 10, 10, 4, READ, 20))
            fields = {"payload_bytes": 8 if opcode in (4, 10) else 0, "length": 8}
            address, key = region.base + 8 * chance.randrange(0x40), region.rkey
            if noise < 0.45:
                psn = pair.expected + chance.choice((1, 1, 2, 3))
        return Sender(self.harness, index, 0).packet(
            opcode, psn=psn & model.MASK,
            **{
                "address": address, "rkey": key, "acknowledge_request": chance.randrange(2),
                "marked": int(chance.random() < 0.1),
                "immediate": chance.getrandbits(32), "swap_or_add": chance.getrandbits(64),
                "compare": chance.getrandbits(64), "payload_offset": chance.randrange(54, 83), **fields,
            },
        )


async def stress(dut, seed, cycles, slow, places=0):
    harness = await begin(dut, seed=seed, slow=slow, places=places)
    chance = random.Random(seed)
    indexes = [0, 1, 2, 63, 64, 255, 256, 510, 511, *(() if places else range(100, 115))]
    for index in indexes:
        await harness.connect(
            index, path_mtu=chance.choice((1, 1, 2)), max_dest_rd_atomic=chance.choice((1, 3, 4, 16)),
            min_rnr_timer=chance.randrange(32),
        )
    traffic = Traffic(harness, chance, indexes)
    for cycle in range(cycles):
        if cycle % 500 == 0:
            harness.open_verdict = chance.choice((0.1, 0.5, 1.0)) if slow else 1.0
        if len(harness.headers) < 4 and len(harness.posts) < 4:
            traffic.act()
        if harness.owed and chance.random() < 0.3:
            harness.answered.append(harness.owed.pop(0))
        if harness.spent and chance.random() < (0.02, 0.5)[cycle // 500 % 2]:
            harness.host_returns.append(harness.spent.pop(0))
        if harness.called and chance.random() < (0.1, 0.005)[cycle // 500 % 2]:
            harness.called -= 1
            harness.rpc_returns.append(1)
        await harness.step()
    harness.open_verdict = 1.0
    await harness.drain()
    harness.compare_counters()
    dut._log.info("%s", {**harness.model.events, "verdicts": len(harness.verdicts)})
    return harness


@cocotb.test()
async def random_traffic(dut):
    harness = await stress(dut, int(os.environ.get("WEFT_SEED", "1")), 10_000, slow=False)
    rare = ["drop_receive_request", "ack_deferred"]
    missing = [name for name in unpack("responder_events_t", 0) if not harness.events.get(name) and name not in rare]
    assert not missing, f"never happened: {missing}"


@cocotb.test()
async def random_traffic_with_back_pressure(dut):
    await stress(dut, int(os.environ.get("WEFT_SEED", "1")) + 1000, 6_000, slow=True)


@cocotb.test()
async def random_traffic_with_packets_that_are_kept(dut):
    seed = int(os.environ.get("WEFT_SEED", "1")) + 2000
    harness = await stress(dut, seed, 12_000, slow=False, places=8)
    assert harness.kept.count > 100 and harness.events["ack_deferred"] > 10, (harness.kept.count, harness.events)
    await stress(dut, seed + 1, 6_000, slow=True, places=2)


def test_responder():
    bench.run(
        "responder", ["weft_pkg.sv", *SOURCES], __file__,
        {"HostCreditBytes": HOST_CREDITS, "RpcCredits": RPC_CREDITS},
    )
