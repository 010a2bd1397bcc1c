"""placement: the contents of memory, and the order and time of consequences, against a model that processes one
packet at a time."""

import random
from collections import deque

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly, RisingEdge

import bench
from structs import SERVICE_SOURCES, SERVICE_TYPES, constant, pack, unpack

REGISTER, ON_CHIP, HBM, HOST = range(4)
NOTHING, WRITE, FETCH_ADD, COMPARE_SWAP, REORDER = (
    constant(name) for name in ("PlaceNothing", "PlaceWrite", "PlaceFetchAdd", "PlaceCompareSwap", "PlaceReorder"))
NONE, ACKNOWLEDGE, ATOMIC = (constant(name) for name in ("AnswerNone", "AnswerAcknowledge", "AnswerAtomic"))
MEMORY_BYTES = 8192
SERVED = (1, 3)  # queue pairs with services, in a block that has them
STREAMS = {"completion": "completion_t", "call": "rpc_call_t", "answer": "answer_t", "advance": "advance_t"}
WORD = 127


def frame_of(chance, offset, payload):
    data = chance.randbytes(offset) + payload
    return data + bytes(-len(payload) % 4) + chance.randbytes(4)


def beats_of(frame):
    beats = []
    for start in range(0, len(frame), 64):
        part = frame[start:start + 64]
        beats.append(pack("beat_t", last=start + 64 >= len(frame), empty=64 - len(part),
                          data=int.from_bytes(part, "little")))
    return beats


def map_of(qp, offset, payload):
    """A map that depends on the offset of each byte in its message."""
    return bytes(byte ^ (37 * at + 11 * (at >> 6) + qp) & 255 for at, byte in enumerate(payload, offset))


class Bench:
    def __init__(self, dut, seed, delay=(1, 30), memory_ready=0.7, services_delay=(1, 60), services_ready=0.8):
        self.dut = dut
        self.chance = random.Random(seed)
        self.now = 0
        self.delay = delay
        self.memory_ready = memory_ready
        self.services = bool(int(dut.Services.value))
        self.services_delay = services_delay
        self.services_ready = services_ready
        self.served = set(SERVED) if self.services else set()
        # Beats with the services, and when each may leave.
        self.inside = deque()
        # Whether packets of queue pairs with services are to be marked, judgements and when each may come, how many
        # of them have been due and have come, and the queue pairs whose message has a marked packet.
        self.marks = deque()
        self.mark_rate = 0.3
        self.judgements = deque()
        self.due_judgements = self.judged = 0
        self.marked = set()
        self.busy = 1.0
        self.consumers = 1.0
        self.verdicts = {"responder": deque(), "requester": deque()}
        self.order = deque()
        self.frames = deque()
        # Payloads that leave to be kept, and those that come back, each with its place.
        self.keeps, self.back, self.back_beat, self.kept_count = deque(), deque(), 0, 0
        # Memory according to the model, and the part of it that is visible.
        self.model = [bytearray(MEMORY_BYTES) for _ in range(4)]
        self.visible = [bytearray(MEMORY_BYTES) for _ in range(4)]
        self.kept = {}
        self.write_count = 0
        self.commands = deque()
        self.commands_taken = 0
        self.payloads = deque()
        self.beats = deque()
        self.data_taken = 0
        self.unwritten = deque()
        self.written = 0
        self.snoops = deque()
        self.snoop_count = self.snooped = 0
        self.consequences = deque()
        self.word = None
        self.held = {}
        self.cycles = {"take": [], "data": [], "written": [], "consequence": []}
        for name in ("order_valid_i", "responder_valid_i", "requester_valid_i", "frame_valid_i", "write_ready_i",
                     "write_data_ready_i", "written_i", "reorder_valid_i", "serve_valid_i", "service_ready_i", "served_valid_i", "judged_valid_i", "word_ready_i", "word_data_valid_i", "snoop_ready_i",
                     *(f"{stream}_ready_i" for stream in STREAMS)):
            getattr(dut, name).value = 0

    async def start(self):
        cocotb.start_soon(Clock(self.dut.clk_i, 4, unit="ns").start())
        self.dut.rst_ni.value = 0
        for _ in range(2):
            await FallingEdge(self.dut.clk_i)
        self.dut.rst_ni.value = 1
        for qp in SERVED:
            self.dut.serve_valid_i.value, self.dut.serve_qp_i.value, self.dut.serve_i.value = 1, qp, 1
            await FallingEdge(self.dut.clk_i)
        self.dut.serve_valid_i.value = 0

    # Stimuli.

    def add(self, source, frame=None, payload=b"", **fields):
        reordered = fields.get("reordered", False)
        fields["packet"] = frame is not None or reordered
        self.verdicts[source].append((pack("placement_t", **fields), fields, payload))
        if fields["packet"]:
            self.order.append(source == "requester")
        if frame is not None:
            self.frames.extend(beats_of(frame))

    def add_write(self, source, target, address, payload, offset=70, consequence=None, reordered=0.0, message_offset=None,
                  **fields):
        sent = payload
        frame = frame_of(self.chance, offset, payload)
        consequence = consequence or {}
        if message_offset is None:
            message_offset = self.chance.choice((0, 1024, self.chance.getrandbits(32) - len(payload)))
        if source == "responder" and consequence.get("qp", 0) in self.served:
            payload = map_of(consequence["qp"], message_offset, payload)
        if self.chance.random() < reordered:
            # The payload was kept, and comes without headers.
            place = self.chance.randrange(64)
            self.back.append((place, beats_of(sent)))
            frame, offset = None, 0
            fields.update(reordered=True, reorder_place=place)
        self.add(source, frame, payload, place=WRITE, target=target, address=address, bytes=len(payload),
                 offset=offset, message_offset=message_offset, consequence=consequence, **fields)

    def add_random(self):
        chance = self.chance
        source = chance.choice(("responder", "responder", "requester"))
        qp = chance.randrange(4)
        consequence = {"qp": qp, "marker": chance.random() < 0.05}
        if source == "requester":
            if chance.random() < 0.7:
                consequence["advance"] = {"kind": chance.randint(1, 3), "psn": chance.getrandbits(24), "status": 5}
        else:
            if chance.random() < 0.3:
                consequence["complete"] = True
            if chance.random() < 0.6:
                consequence["answer"] = {"kind": chance.choice((ACKNOWLEDGE, 2, 3)), "psn": chance.getrandbits(24),
                                         "length": chance.getrandbits(32)}
            # Undefined values where no request completes.
            consequence["completion"] = {"qp": qp, "id": chance.getrandbits(64), "status": chance.choice((0, 0, 0, 5)),
                                         "bytes": chance.choice((0, chance.getrandbits(32)))}
        kind = chance.random()
        target = chance.randrange(4)
        if kind < 0.2:
            frame = frame_of(chance, 54, chance.randbytes(chance.choice((0, 8, 64, 500)))) if chance.random() < 0.6 else None
            reordered = frame is None and source == "responder" and chance.random() < 0.3
            self.add(source, frame, reordered=reordered, consequence=consequence, address=chance.getrandbits(48), offset=chance.randrange(128))
        elif kind < 0.75 or (source == "requester" and kind < 0.85):
            length = chance.choice((64, 1, 8, chance.randint(1, 130), chance.randint(1, 130), chance.randint(1, 4096)))
            address = chance.randrange(MEMORY_BYTES - length + 1)
            if chance.random() < 0.5:
                address &= ~63
            fields = {}
            if source == "responder" and chance.random() < 0.3:
                slot = chance.randrange(16)
                consequence["rpc"] = {"slot": slot, "qp": qp, "target": target, "address": address, "length": length}
                consequence["call"] = True
                fields["snoop"] = chance.random() < 0.7
                fields["begins"] = chance.random() < 0.5
            if source == "responder" and not consequence.get("call") and chance.random() < 0.2:
                payload, offset = chance.randbytes(length), chance.choice((54, 63, 64, 82))
                self.add(source, frame_of(chance, offset, payload), payload, place=REORDER, bytes=length, offset=offset,
                         address=address, reorder_place=chance.randrange(64), consequence=consequence)
                return
            self.add_write(source, target, address, chance.randbytes(length), chance.choice((54, 58, 63, 64, 66, 70, 82)),
                           consequence, reordered=0.3 * (source == "responder"), write_through=chance.random() < 0.2, swap_or_add=chance.getrandbits(64), **fields)
        elif source == "requester":
            value = chance.getrandbits(64)
            frame = frame_of(chance, 66, b"") if chance.random() < 0.8 else None
            self.add(source, frame, value.to_bytes(8, "little"), place=WRITE, target=target, bytes=8, offset=WORD,
                     address=chance.randrange(MEMORY_BYTES - 8), swap_or_add=value, consequence=consequence)
        else:
            resource = chance.randrange(3)
            duplicate = chance.random() < 0.4 and (qp, resource) in self.asked
            self.asked.add((qp, resource))
            consequence["answer"] = {"kind": ATOMIC, "duplicate": duplicate, "resource": resource,
                                     "psn": chance.getrandbits(24), "original": chance.getrandbits(64)}
            place = NOTHING if duplicate else chance.choice((FETCH_ADD, COMPARE_SWAP))
            compare = chance.getrandbits(64)
            if chance.random() < 0.5:
                compare = 0
            kept = {"reordered": chance.random() < 0.3}
            self.add(source, None if kept["reordered"] else frame_of(chance, 82, b""), place=place, target=target, offset=82,
                     **kept, address=chance.randrange(4) * 8, swap_or_add=chance.choice((0, 1, chance.getrandbits(64))),
                     compare=compare, write_through=chance.random() < 0.2, consequence=consequence)

    asked = set()

    # The model.

    def take(self, source):
        verdict, fields, payload = self.verdicts[source].popleft()
        if fields["packet"]:
            assert self.order.popleft() == (source == "requester"), "packets in the wrong order"
        consequence = unpack("placement_t", verdict)["consequence"]
        place = fields.get("place", NOTHING)
        target, address = fields.get("target", 0), fields.get("address", 0)
        qp = consequence["qp"]
        if source == "responder" and place == WRITE and fields["message_offset"] == 0:
            self.marked.discard(qp)
        if source == "responder" and place == WRITE and qp in self.served:
            mark = self.chance.random() < self.mark_rate
            self.marks.append(mark)
            self.due_judgements += 1
            if mark:
                self.marked.add(qp)
        completion = consequence["completion"]
        if qp in self.marked and completion["status"] == 0 and completion["bytes"]:
            completion["vendor_error"] = SERVICE_TYPES.constants["CompletionMarked"]
        answer = consequence["answer"]
        key = (consequence["qp"], answer["resource"])
        if place in (FETCH_ADD, COMPARE_SWAP):
            original = int.from_bytes(self.model[target][address:address + 8], "little")
            self.kept[key] = original
            value = fields["swap_or_add"]
            if place == FETCH_ADD:
                payload = (original + value & (1 << 64) - 1).to_bytes(8, "little")
            elif original == fields["compare"]:
                payload = value.to_bytes(8, "little")
        if answer["kind"] == ATOMIC:
            answer["original"] = self.kept[key]
        due = {}
        if consequence["complete"]:
            due["completion"] = consequence["completion"]
        if consequence["call"]:
            due["call"] = consequence["rpc"]
        if answer["kind"]:
            due["answer"] = answer
        if consequence["advance"]["kind"]:
            due["advance"] = consequence["advance"]
        if consequence["marker"]:
            due["marker"] = True
        write = None
        if place == REORDER:
            self.keeps.extend((fields["reorder_place"], index, beat) for index, beat in enumerate(beats_of(payload)))
        elif payload:
            self.write_count += 1
            write = self.write_count
            through = fields.get("write_through", False)
            self.model[target][address:address + len(payload)] = payload
            self.commands.append(pack("write_command_t", target=target, write_through=through,
                                      transfer={"address": address, "bytes": len(payload)}))
            self.payloads.append((target, address, payload))
            lead = address % 64
            padded = (bytes(lead) + payload).ljust((lead + len(payload) + 63) // 64 * 64, b"\0")
            strobe = (1 << len(payload)) - 1 << lead
            for i in range(0, len(padded), 64):
                data = int.from_bytes(padded[i:i + 64], "little")
                beat = pack("write_beat_t", last=i + 64 == len(padded), strobe=strobe >> i & (1 << 64) - 1, data=data)
                if fields.get("snoop"):
                    self.snoops.append(pack("rpc_beat_t", qp=consequence["qp"], begins=fields.get("begins", False),
                                            ends=consequence["call"], address=(address & ~63) + i, beat=beat))
                    self.snoop_count += 1
                self.beats.append((beat, self.snoop_count))
            if place == WRITE and target == HOST:
                due["credit"] = (len(payload), source == "requester")
        self.consequences.append({"qp": consequence["qp"], "due": due, "write": write, "snoops": self.snoop_count,
                                  "judgements": self.due_judgements})

    def serve(self, beat):
        """Passes a beat through the services."""
        offset = 64 * beat["word"]
        assert not beat["flow"]["transmit"]
        qp = beat["flow"]["qp"]
        if qp in self.served:
            beat["data"] = int.from_bytes(map_of(qp, offset, beat["data"].to_bytes(64, "little")), "little")
        ready = max(self.now + self.chance.randint(*self.services_delay), self.inside[-1][0] if self.inside else 0)
        self.inside.append((ready, SERVICE_TYPES.pack("service_beat_t", **beat)))
        if beat["last"]:
            is_served = qp in self.served
            ready = self.now + self.chance.randint(*self.services_delay)
            ready = max(ready, self.judgements[-1][0] if self.judgements else 0)
            self.judgements.append((ready, is_served, is_served and self.marks.popleft()))

    def head(self, name):
        """The next consequence."""
        while not self.consequences[0]["due"]:
            self.consequences.popleft()
        entry = self.consequences[0]
        assert name in entry["due"], f"{name} out of turn: {entry}"
        return entry

    def happens(self, name, value, qp=None):
        entry = self.head(name)
        due = entry["due"][name]
        if name == "answer" and due["kind"] != ATOMIC:
            value["original"] = due["original"]
        assert value == due, (name, value, due)
        assert qp in (None, entry["qp"])
        if entry["write"]:
            assert self.written >= entry["write"], f"{name} before its data is visible"
        assert self.judged >= entry["judgements"], f"{name} before its packet is judged"
        if name == "call":
            assert self.snooped >= entry["snoops"], "a call before the engine has seen the data"

    async def step(self):
        dut, chance = self.dut, self.chance
        await FallingEdge(dut.clk_i)
        self.now += 1
        offered = {}

        def offer(name, queue, value):
            valid = getattr(dut, f"{name}_valid_i")
            offered[name] = bool(queue) and (self.held.get(name) or chance.random() < self.busy)
            valid.value = int(offered[name])
            if offered[name]:
                value(queue[0])

        def put(handle):
            return lambda value: setattr(handle, "value", value)

        offer("order", self.order, lambda value: put(dut.order_requester_i)(int(value)))
        offer("responder", self.verdicts["responder"], lambda item: put(dut.responder_i)(item[0]))
        offer("requester", self.verdicts["requester"], lambda item: put(dut.requester_i)(item[0]))
        offer("frame", self.frames, put(dut.frame_i))
        # A payload comes while it is asked for.
        if self.back:
            place, beats = self.back[0]
            valid = bool(int(dut.reorder_run_o.value)) and (self.held.get("reorder") or chance.random() < 0.8)
            offered["reorder"] = valid
            dut.reorder_valid_i.value = int(valid)
            last = self.back_beat == len(beats) - 1
            dut.reorder_last_i.value, dut.reorder_data_i.value = int(last), beats[self.back_beat] & (1 << 512) - 1
        else:
            dut.reorder_valid_i.value = 0
        likely = lambda limit: int(chance.random() < limit)  # noqa: E731
        dut.write_ready_i.value = int(self.commands_taken <= self.data_taken + 1) and likely(self.memory_ready)
        dut.write_data_ready_i.value = int(self.data_taken < self.commands_taken) and likely(self.memory_ready)
        dut.snoop_ready_i.value = likely(self.consumers)
        for stream in STREAMS:
            getattr(dut, f"{stream}_ready_i").value = likely(self.consumers)
        done = bool(self.unwritten) and self.unwritten[0][0] <= self.now
        dut.written_i.value = int(done)
        if done:
            _, (target, address, payload) = self.unwritten.popleft()
            self.visible[target][address:address + len(payload)] = payload
            self.written += 1
            self.cycles["written"].append(self.now)
        dut.service_ready_i.value = likely(self.services_ready)
        served = bool(self.inside) and self.inside[0][0] <= self.now
        dut.served_valid_i.value = int(served)
        if served:
            dut.served_i.value = self.inside[0][1]
        dut.judged_valid_i.value = 0
        if self.judgements and self.judgements[0][0] <= self.now:
            _, is_served, mark = self.judgements.popleft()
            dut.judged_valid_i.value, dut.judged_marked_i.value = 1, int(mark)
            self.judged += is_served
        dut.word_ready_i.value = likely(self.memory_ready)
        word = self.word is not None and self.word[0] <= self.now
        dut.word_data_valid_i.value = int(word)
        if word:
            _, target, address = self.word
            dut.word_data_i.value = int.from_bytes(self.visible[target][address:address + 8], "little")
            self.word = None
        await ReadOnly()

        taken = {name: offered[name] and bool(int(getattr(dut, f"{name}_ready_o").value)) for name in offered}
        self.held = {name: offered[name] and not taken[name] for name in offered}
        if taken["frame"]:
            self.frames.popleft()
        if int(dut.reorder_run_o.value):
            assert int(dut.reorder_place_o.value) == self.back[0][0]
            assert int(dut.reorder_end_o.value) == len(self.back[0][1]) - 1
        if taken.get("reorder"):
            self.back_beat += 1
            if self.back_beat == len(self.back[0][1]):
                self.back.popleft()
                self.back_beat = 0
        if int(dut.reorder_write_o.value):
            place, index, beat = self.keeps.popleft()
            assert (int(dut.reorder_write_place_o.value), int(dut.reorder_write_index_o.value)) == (place, index)
            assert int(dut.reorder_write_last_o.value) == beat >> 518
            used = (1 << 8 * (64 - (beat >> 512 & 63))) - 1
            assert int(dut.reorder_write_data_o.value) & used == beat & used
            self.kept_count += 1
        if served and int(dut.served_ready_o.value):
            self.inside.popleft()
        if int(dut.service_valid_o.value) and int(dut.service_ready_i.value):
            self.serve(SERVICE_TYPES.unpack("service_beat_t", dut.service_o.value))
        assert not (taken["responder"] and taken["requester"])
        for source in ("responder", "requester"):
            if taken[source]:
                assert taken["order"] == self.verdicts[source][0][1]["packet"]
                self.cycles["take"].append(self.now)
                self.take(source)
        if int(dut.snoop_valid_o.value):
            assert int(dut.snoop_o.value) == self.snoops[0]
            if int(dut.snoop_ready_i.value):
                self.snoops.popleft()
                self.snooped += 1
        if int(dut.write_valid_o.value):
            assert int(dut.write_o.value) == self.commands[0], "a write that is not due"
            if int(dut.write_ready_i.value):
                self.commands.popleft()
                self.commands_taken += 1
        if int(dut.write_data_valid_o.value):
            beat, snoops = self.beats[0]
            assert int(dut.write_data_o.value) == beat
            if int(dut.write_data_ready_i.value):
                assert self.snooped >= snoops, "written before it is snooped"
                self.beats.popleft()
                self.cycles["data"].append(self.now)
                if beat >> 576:
                    self.data_taken += 1
                    ready = max(self.now + chance.randint(*self.delay), self.unwritten[-1][0] if self.unwritten else 0)
                    self.unwritten.append((ready, self.payloads.popleft()))
        if int(dut.word_valid_o.value) and int(dut.word_ready_i.value):
            assert self.written == self.write_count, "a word is read before writes in front of it are visible"
            self.word = (self.now + chance.randint(*self.delay), int(dut.word_target_o.value), int(dut.word_address_o.value))
        finished = []
        for stream, struct in STREAMS.items():
            if not int(getattr(dut, f"{stream}_valid_o").value):
                assert not self.held.get(stream), f"{stream} is taken back"
                continue
            qp = int(getattr(dut, f"{stream}_qp_o").value) if stream in ("answer", "advance") else None
            self.happens(stream, unpack(struct, getattr(dut, f"{stream}_o").value), qp)
            self.held[stream] = not int(getattr(dut, f"{stream}_ready_i").value)
            if not self.held[stream]:
                finished.append(stream)
                self.cycles["consequence"].append(self.now)
        if int(dut.marker_o.value):
            self.happens("marker", True, int(dut.marker_qp_o.value))
            finished.append("marker")
        if int(dut.credit_return_valid_o.value):
            self.happens("credit", (int(dut.credit_return_o.value), bool(int(dut.credit_return_requester_o.value))))
            finished.append("credit")
        for name in finished:
            del self.consequences[0]["due"][name]
        self.idle = int(dut.idle_o.value)
        await RisingEdge(dut.clk_i)

    async def drain(self, limit=60_000):
        for _ in range(limit):
            await self.step()
            while self.consequences and not self.consequences[0]["due"]:
                self.consequences.popleft()
            if not (any(self.verdicts.values()) or self.consequences or self.frames) and self.idle:
                break
        else:
            raise AssertionError("it does not come to rest")
        assert not (self.order or self.beats or self.snoops or self.commands or self.keeps or self.back or self.marks
                    or self.judgements)
        assert self.model == self.visible


async def mixed(dut, seed, packets, **options):
    test = Bench(dut, seed, **options)
    test.asked = set()
    await test.start()
    for _ in range(packets // 50):
        test.busy = test.chance.choice((0.3, 0.9, 1.0))
        test.consumers = test.chance.choice((0.1, 0.8, 1.0))
        for _ in range(50):
            test.add_random()
        while sum(map(len, test.verdicts.values())) > 5:
            await test.step()
    await test.drain()
    return test


@cocotb.test()
async def everything_in_order(dut):
    test = await mixed(dut, 1, 1500)
    assert len(test.kept) == 12 and test.kept_count > 100


@cocotb.test()
async def distant_memory(dut):
    await mixed(dut, 2, 600, delay=(100, 300), memory_ready=0.9)


@cocotb.test()
async def quick_memory(dut):
    await mixed(dut, 3, 1500, delay=(1, 1), memory_ready=1)


@cocotb.test()
async def a_consumer_that_takes_nothing_stops_what_follows(dut):
    test = Bench(dut, 4, delay=(1, 1), memory_ready=1)
    await test.start()
    test.consumers = 0
    for i in range(600):
        test.add_write("responder", HBM, 64 * (i % 100), bytes([i % 256] * 64), consequence={"complete": True})
    for _ in range(3000):
        await test.step()
    assert 512 <= len(test.cycles["take"]) <= 514 and not test.cycles["consequence"][1:]
    assert not test.idle
    test.consumers = 1
    await test.drain()
    assert test.write_count == 600


@cocotb.test()
async def small_writes_keep_the_rate_of_the_wire(dut):
    # None of these queue pairs has services.
    for offset, length, address, beats in ((70, 64, 0, 3), (70, 4096, 64, 66), (54, 4096, 7, 65), (82, 1024, 63, 18)):
        test = Bench(dut, 5, delay=(200, 200), memory_ready=1)
        await test.start()
        count = 200 if beats == 3 else 20
        for i in range(count):
            test.add_write("responder", HBM, address, bytes([i % 256] * length), offset=offset,
                           consequence={"complete": True, "qp": 4 + i % 28})
        assert len(test.frames) == beats * count
        await test.drain()
        spent = test.cycles["written"][-1] - test.cycles["written"][0]
        assert spent <= beats * (count - 1) + 1, (beats, spent / (count - 1))


@cocotb.test()
async def services_keep_the_rate_of_the_wire(dut):
    for length, beats in ((64, 3), (4096, 66), (1000, 18)):
        test = Bench(dut, 8, delay=(5, 5), memory_ready=1, services_delay=(40, 40), services_ready=1)
        if not test.services:
            return
        await test.start()
        count = 200 if beats == 3 else 20
        for i in range(count):
            # Requests of other queue pairs do not wait for those with services.
            test.add_write("responder", HBM, 64 * i, bytes([i % 256] * length), consequence={"complete": True, "qp": i % 4})
        await test.drain()
        spent = test.cycles["written"][-1] - test.cycles["written"][0]
        assert spent <= beats * (count - 1) + 45, (beats, spent / (count - 1))


@cocotb.test()
async def a_mark_ends_with_its_message(dut):
    test = Bench(dut, 9)
    if not test.services:
        return
    await test.start()
    qp = SERVED[0]

    async def message(offsets):
        for message_offset in offsets:
            completion = {"qp": qp, "bytes": message_offset + 64}
            test.add_write("responder", HBM, 0, bytes(64), message_offset=message_offset,
                           consequence={"qp": qp, "complete": message_offset == offsets[-1], "completion": completion})
        await test.drain()

    # A packet in the middle marks its message; the next message, and one without services, are not marked.
    for rate, offsets in ((0, (0, 64)), (1, (128,)), (0, (192,)), (0, (0, 64)), (1, (0,))):
        test.mark_rate = rate
        await message(offsets)
    assert test.marked == {qp}
    test.served.discard(qp)
    await FallingEdge(dut.clk_i)
    dut.serve_valid_i.value, dut.serve_qp_i.value, dut.serve_i.value = 1, qp, 0
    await FallingEdge(dut.clk_i)
    dut.serve_valid_i.value = 0
    await message((0, 64))
    assert not test.marked


@cocotb.test()
async def latency(dut):
    test = Bench(dut, 6, delay=(5, 5), memory_ready=1)
    await test.start()
    await test.step()
    test.add_write("responder", HBM, 128, bytes(range(64)), consequence={"complete": True})
    await test.drain()
    cycles = test.cycles
    assert cycles["data"][0] - cycles["take"][0] == 5
    assert cycles["consequence"][0] - cycles["written"][0] == 1
    test.add("requester", frame_of(test.chance, 58, b""), consequence={"advance": {"kind": 1}})
    await test.drain()
    assert cycles["consequence"][1] - cycles["take"][1] == 2
    test.add("responder", frame_of(test.chance, 82, b""), place=FETCH_ADD, target=ON_CHIP, address=8, swap_or_add=1,
             consequence={"answer": {"kind": ATOMIC}})
    await test.drain()


@pytest.mark.parametrize("services", [0, 1])
def test_placement(services):
    sources = [*SERVICE_SOURCES, "stream/fifo.sv", "stream/ram.sv", "stream/realign.sv", "stream/ram_fifo.sv", "rdma/placement_frames.sv",
               "rdma/placement_marks.sv", "rdma/placement_retire.sv", "rdma/placement_services.sv", "rdma/placement.sv"]
    bench.run("placement", sources, __file__, parameters={"Services": services})
