"""reorder: requests of several queue pairs, kept and handed back, against a model that knows what each place holds."""

import random
from collections import Counter, deque

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge

import bench
from structs import RTL, Package

TYPES = Package([RTL / "weft_pkg.sv", RTL / "rdma/responder_pkg.sv"])
PATIENCE = 4
# Cycles after a packet has entered the responder.
RESERVE, SEARCH, COMMAND = 2, 5, 6
MASK = 0xFFFFFF


class Bench:
    """Plays the responder and the placement block, and the peers of four queue pairs. All outputs that a decision
    needs are registers, so they are read before the inputs of a cycle are set."""

    def __init__(self, dut, seed, limit=64, fills=0.4, payloads=0.8, released=0.9, handed=0.7, moves=0.9, silent=()):
        self.dut, self.chance = dut, random.Random(seed)
        self.places = int(dut.Places.value)
        self.limit, self.fills, self.payloads, self.handed, self.moving = limit, fills, payloads, handed, moves
        self.released = released
        # The gaps of these queue pairs are never filled.
        self.silent = silent
        self.expected = {qp: self.chance.choice((0, 100, MASK - 1)) for qp in (0, 1, 256, 511)}
        self.stages = deque([None] * (COMMAND + 1), maxlen=COMMAND + 1)
        self.reserved, self.valid, self.arriving, self.queued = set(), set(), set(), set()
        self.contents = {}
        self.met, self.hand, self.refused = set(), 0, 0
        self.nexts, self.out = deque(), None
        self.moves, self.beat = deque(), 0
        self.count = Counter()
        self.quiet = False

    async def start(self):
        dut = self.dut
        cocotb.start_soon(Clock(dut.clk_i, 4, unit="ns").start())
        for name in ("reserve_i", "command_valid_i", "release_i", "header_ready_i", "write_i", "frame_run_i", "frame_ready_i"):
            getattr(dut, name).value = 0
        dut.limit_i.value = self.limit
        dut.rst_ni.value = 0
        for _ in range(3):
            await FallingEdge(dut.clk_i)
        dut.rst_ni.value = 1

    # The model.

    def free(self):
        taken = self.reserved | self.valid | self.arriving | self.queued
        return [place for place in range(min(self.places, self.limit)) if place not in taken]

    def kept(self, qp):
        """PSN -> place of what is kept for a queue pair and is not next in turn."""
        held = [place for place in self.valid - self.queued if self.contents[place]["qp"] == qp]
        found = {self.contents[place]["psn"]: place for place in held}
        assert len(found) == len(held)
        return found

    def settle(self, event):
        """The command for an event, and its effects."""
        chance, qp, place = self.chance, event["qp"], event.get("place", 0)
        kept = self.kept(qp)
        command = {"place": place, "deferred": event.get("deferred", 0) or chance.getrandbits(1)}
        looked = self.search(event)
        found = kept.get(looked)
        assert int(self.dut.any_o.value) == bool(kept), event
        assert int(self.dut.found_o.value) == (found is not None), event
        bytes_ = event.get("bytes", 0)
        accepted = event["kind"] == "turn" or (event["kind"] == "kept" and event["outcome"] == "accept")
        if "place" in event and event["kind"] == "early":
            command.update(reserved=1, keep=found is None, payload=bytes_ > 0)
            self.reserved.discard(place)
            if found is None:
                self.count["kept"] += 1
                self.valid.add(place)
                self.met.discard(place)
                self.contents[place] = event
                if bytes_:
                    self.arriving.add(place)
                    self.moves.append(("write", place, event["payload"]))
            else:
                self.count["again"] += 1
        elif event["kind"] == "early" and found is None:
            command["refused"] = 1
            self.count["refused"] += 1
            self.refused += 1
            if self.refused % PATIENCE == 0:
                if self.hand in self.met - self.queued and self.hand in self.valid:
                    self.count["evicted"] += 1
                    self.valid.discard(self.hand)
                self.met.add(self.hand)
                self.hand = (self.hand + 1) % self.places
        if event["kind"] == "kept":
            command["returned"] = 1
            self.valid.discard(place)
            self.queued.discard(place)
            if accepted and bytes_:
                self.moves.append(("read", place, event["payload"]))
        if accepted:
            self.expected[qp] = looked
            if found is not None:
                command["next"] = 1
                self.queued.add(found)
                self.nexts.append((found, command["deferred"]))
        if event["kind"] == "clear" or event.get("outcome") == "clear":
            command["clear"] = 1
            self.count["clear"] += 1
            self.valid -= {place for place in self.valid if self.contents[place]["qp"] == qp}
        return command

    def search(self, event):
        if event["kind"] == "early":
            return event["psn"]
        return self.expected[event["qp"]] + 1 & MASK

    # The responder's inputs.

    def event(self, busy):
        """A packet or change of state of a queue pair that has none on its way."""
        chance = self.chance
        qps = [qp for qp in self.expected if qp not in busy]
        if self.quiet or not qps or chance.random() < 0.2:
            return None
        qp = chance.choice(qps)
        what = chance.random()
        if what < 0.01 and qp not in self.silent:
            return {"qp": qp, "kind": "clear"}
        if what < self.fills and qp not in self.silent:
            return {"qp": qp, "kind": "turn"}
        size = chance.choice((0, 1, 64, 65, 200, 4096)) if chance.random() < self.payloads else 0
        return {
            "qp": qp, "kind": "early", "psn": self.expected[qp] + chance.choice((1, 1, 2, 3, 5, 9)) & MASK,
            "bytes": size, "payload": [chance.getrandbits(512) for _ in range(-(-size // 64))],
        }

    def enter(self, busy):
        dut, chance = self.dut, self.chance
        live = self.out is not None and self.out[0] in self.valid
        assert int(dut.header_valid_o.value) == live
        taken = False
        event = None
        if live:
            place, deferred = self.out
            event = self.contents[place]
            assert int(dut.header_place_o.value) == place and int(dut.header_deferred_o.value) == deferred
            expected = dict(event["header"], marked=0, payload_offset=0)
            expected["acknowledge_request"] |= deferred
            assert TYPES.unpack("roce_header_t", dut.header_o.value) == expected
            taken = event["qp"] not in busy and chance.random() < self.handed
        if taken:
            self.count["handed"] += 1
            outcome = "overtaken"
            if event["psn"] == self.expected[event["qp"]]:
                outcome = chance.choices(("accept", "dropped", "clear"), (0.9, 0.07, 0.03))[0]
            event = {**event, "kind": "kept", "place": place, "deferred": deferred, "outcome": outcome}
        else:
            event = self.event(busy)
        dut.header_ready_i.value = int(taken)
        released = chance.random() < self.released
        dut.release_i.value = int(released)
        # What follows is in force from the next cycle on.
        after = None if taken or not live else self.out
        if released and self.out is None and self.nexts and self.nexts[0][0] not in self.arriving:
            after = self.nexts.popleft()
        if self.out is not None and not live:
            self.count["forgotten"] += 1
            self.queued.discard(self.out[0])
        self.out = after
        return event

    async def step(self):
        dut, chance = self.dut, self.chance
        await FallingEdge(dut.clk_i)
        free = self.free()
        assert int(dut.room_o.value) == bool(free)
        busy = {event["qp"] for event in self.stages if event}
        # The last stage leaves in this cycle.
        oldest = self.stages[COMMAND - 1]
        event = self.enter(busy)
        self.stages.appendleft(event)
        reserving = self.stages[RESERVE]
        dut.reserve_i.value = 0
        reserved = None
        if reserving and reserving["kind"] == "early":
            header = {name: chance.getrandbits(width) for name, _, width in TYPES.structs["roce_header_t"]}
            header.update(destination_qp=0x200 | reserving["qp"], psn=reserving["psn"])
            if free:
                assert int(dut.room_place_o.value) == free[0]
                reserving["header"], reserving["place"] = header, free[0]
                dut.reserve_i.value = 1
                reserved = free[0]
            dut.reserve_header_i.value = TYPES.pack("roce_header_t", **header)
        searching = self.stages[SEARCH]
        if searching:
            dut.search_qp_i.value = searching["qp"]
            dut.search_psn_i.value = self.search(searching)
        moved = self.move()
        dut.command_valid_i.value = int(oldest is not None)
        command = self.settle(oldest) if oldest else {"place": chance.getrandbits(6), "keep": 1, "next": 1, "clear": 1}
        dut.command_i.value = TYPES.pack("reorder_command_t", **command)
        if reserved is not None:
            self.reserved.add(reserved)
        if moved is not None:
            self.arriving.discard(moved)

    def move(self):
        """The placement block moves a beat. Returns the place whose payload has arrived."""
        dut, chance = self.dut, self.chance
        dut.write_i.value = dut.frame_run_i.value = dut.frame_ready_i.value = 0
        dut.write_last_i.value = chance.getrandbits(1)
        if not self.moves:
            return None
        what, place, beats = self.moves[0]
        moves = chance.random() < self.moving
        done = False
        if what == "write" and moves:
            done = self.beat == len(beats) - 1
            dut.write_i.value, dut.write_place_i.value, dut.write_index_i.value = 1, place, self.beat
            dut.write_last_i.value, dut.write_data_i.value = int(done), beats[self.beat]
            self.beat += 1
        elif what == "read":
            dut.frame_run_i.value, dut.frame_place_i.value, dut.frame_end_i.value = 1, place, len(beats) - 1
            dut.frame_ready_i.value = int(moves)
            # The beat that is read in this cycle is valid in the next one.
            if int(dut.frame_valid_o.value) and moves:
                done = self.beat == len(beats) - 1
                assert int(dut.frame_data_o.value) == beats[self.beat]
                assert int(dut.frame_last_o.value) == done
                self.beat += 1
        if done:
            self.beat = 0
            self.moves.popleft()
            self.count[what] += 1
        return place if done and what == "write" else None

    async def run(self, cycles):
        for _ in range(cycles):
            await self.step()

    async def drain(self):
        self.quiet = True
        for _ in range(20_000):
            await self.step()
            if int(self.dut.idle_o.value) and not any(self.stages) and not self.moves:
                break
        else:
            raise AssertionError("it does not come to rest")
        assert not (self.reserved or self.arriving or self.queued)


async def begin(dut, seed, **options):
    test = Bench(dut, seed, **options)
    await test.start()
    return test


@cocotb.test()
async def what_is_kept_comes_back_in_turn(dut):
    test = await begin(dut, 1)
    await test.run(12_000)
    await test.drain()
    dut._log.info("%s", test.count)
    assert all(test.count[name] > 5 for name in ("kept", "again", "refused", "handed", "forgotten", "clear", "read", "write"))


@cocotb.test()
async def slow_consumers(dut):
    test = await begin(dut, 2, released=0.2, handed=0.1, moves=0.2, payloads=0.2)
    await test.run(12_000)
    await test.drain()


@cocotb.test()
async def without_payload_and_at_full_rate(dut):
    test = await begin(dut, 3, payloads=0, released=1, handed=1)
    await test.run(6_000)
    await test.drain()


@cocotb.test()
async def fewer_places_than_there_are(dut):
    for limit in (0, 1, 3):
        test = await begin(dut, 4 + limit, limit=limit)
        await test.run(2_000)
        await test.drain()
        assert bool(test.count["kept"]) == bool(limit)


@cocotb.test()
async def a_gap_that_is_never_filled_holds_no_place_for_ever(dut):
    test = await begin(dut, 8, silent=(256,))
    await test.run(10_000)
    assert test.count["evicted"] > 10
    # The others have had places all the time.
    before = test.count["handed"]
    await test.run(3_000)
    assert test.count["handed"] > before + 50
    await test.drain()


@pytest.mark.parametrize("places", [4, 16])
def test_reorder(places):
    bench.run("reorder", ["weft_pkg.sv", "rdma/responder_pkg.sv", "stream/fifo.sv", "stream/ram.sv", "rdma/reorder.sv"], __file__,
              parameters={"Places": places, "Patience": PATIENCE})
