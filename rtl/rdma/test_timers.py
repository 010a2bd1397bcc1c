"""timers: an expired deadline is offered soon and repeatedly, no other is, and the earliest deadline is known when
no setting changes."""

import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly

import bench
from structs import constant

QUEUE_PAIRS = constant("QueuePairs")
# Cycles of a round, including the scanner's pipeline.
ROUND = QUEUE_PAIRS + 3


class Timers:
    """Drives the timers and stores the deadlines that were set."""

    def __init__(self, dut):
        self.dut = dut
        self.deadlines = {}
        self.now = 0
        # Recently changed deadlines, with the cycle of the change: their old values may still be offered.
        self.stale = {}
        self.cycles = 0

    async def start(self):
        dut = self.dut
        cocotb.start_soon(Clock(dut.clk_i, 4, unit="ns").start())
        dut.rst_ni.value = 0
        dut.set_i.value = 0
        dut.expired_ready_i.value = 0
        dut.now_i.value = 0
        for _ in range(3):
            await FallingEdge(dut.clk_i)
        dut.rst_ni.value = 1
        while not int(dut.ready_o.value):
            await FallingEdge(dut.clk_i)
        assert not int(dut.armed_o.value)

    async def cycle(self, set_=None, ready=True):
        """Runs one cycle; `set_` is (index, deadline) or None. Returns the offer that was accepted."""
        dut = self.dut
        dut.set_i.value = int(set_ is not None)
        if set_:
            dut.set_index_i.value = set_[0]
            dut.set_armed_i.value = int(set_[1] is not None)
            dut.set_deadline_i.value = set_[1] or 0
        dut.expired_ready_i.value = int(ready)
        dut.now_i.value = self.now
        await ReadOnly()
        assert int(dut.armed_o.value) == bool(self.deadlines)
        if int(dut.earliest_valid_o.value):
            assert int(dut.earliest_o.value) == min(self.deadlines.values())
        offered = None
        if int(dut.expired_valid_o.value):
            offered = int(dut.expired_o.value)
            due = self.deadlines.get(offered, self.now + 1) <= self.now
            stale, when = self.stale.get(offered, (0, -10))
            assert due or (stale <= self.now and self.cycles - when <= self.patience)
        await FallingEdge(dut.clk_i)
        self.cycles += 1
        self.now += 1
        if set_:
            if set_[0] in self.deadlines:
                self.stale[set_[0]] = self.deadlines.pop(set_[0]), self.cycles
            if set_[1] is not None:
                self.deadlines[set_[0]] = set_[1]
        return offered if ready else None

    # Cycles for which the old value of a changed deadline may still be offered.
    patience = 3


@cocotb.test()
async def a_deadline_is_offered_when_it_is_due_and_each_round_again(dut):
    timers = Timers(dut)
    await timers.start()
    await timers.cycle((77, timers.now + 1_000))
    for _ in range(999):
        assert await timers.cycle() is None
    for _ in range(3):
        offers = [await timers.cycle() for _ in range(ROUND)]
        assert 77 in offers
        assert set(offers) <= {77, None}
    await timers.cycle((77, None))
    for _ in range(3):
        await timers.cycle()
    assert not any([await timers.cycle() for _ in range(ROUND)])


@cocotb.test()
async def an_offer_waits_until_it_is_taken(dut):
    timers = Timers(dut)
    await timers.start()
    await timers.cycle((3, 5))
    await timers.cycle((4, 5))
    for _ in range(2 * ROUND):
        await timers.cycle(ready=False)
    offers = [await timers.cycle() for _ in range(2 * ROUND)]
    assert {3, 4, None} == set(offers)
    assert offers.count(3) in (2, 3) and offers.count(4) in (2, 3)


@cocotb.test()
async def all_can_be_due_at_once(dut):
    timers = Timers(dut)
    await timers.start()
    for index in range(QUEUE_PAIRS):
        await timers.cycle((index, 100))
    for _ in range(3):
        await timers.cycle()
    taken = [await timers.cycle() for _ in range(2 * QUEUE_PAIRS)]
    # One offer in each cycle.
    assert sum(offer is not None for offer in taken) == 2 * QUEUE_PAIRS
    assert set(taken) == set(range(QUEUE_PAIRS))


@cocotb.test()
async def the_earliest_is_known_after_a_quiet_round(dut):
    timers = Timers(dut)
    await timers.start()
    chance = random.Random(1)
    valid = dut.earliest_valid_o
    for _ in range(6):
        for _ in range(5):
            index = chance.randrange(QUEUE_PAIRS)
            await timers.cycle((index, chance.choice((None, timers.now + 10_000 + chance.getrandbits(40)))))
        await timers.cycle((511, timers.now + 10_000 + chance.getrandbits(40)))
        assert not int(valid.value)
        for _ in range(ROUND):
            await timers.cycle()
        assert int(valid.value)
        for _ in range(5):
            await timers.cycle()
            assert int(valid.value)
    for index in list(timers.deadlines):
        await timers.cycle((index, None))
    for _ in range(ROUND):
        await timers.cycle()
    assert not int(dut.armed_o.value) and not int(valid.value)


@cocotb.test()
async def any_sequence_offers_all_that_is_due_and_nothing_else(dut):
    timers = Timers(dut)
    timers.patience = 60
    await timers.start()
    chance = random.Random(2)
    # For each expired and unchanged deadline: cycles in which the scanner could advance.
    waiting = {}
    known = 0
    for step in range(12_000):
        phase = step // 1_000 % 4
        set_ = None
        if chance.random() < (0.5, 0.02, 0.0, 0.005)[phase]:
            index = chance.choice((chance.randrange(8), chance.randrange(QUEUE_PAIRS)))
            set_ = index, chance.choice((None, timers.now + chance.randrange(2_000)))
        ready = step % 50 == 0 or chance.random() < (0.9, 0.5)[phase % 2]
        taken = await timers.cycle(set_, ready)
        if set_:
            waiting.pop(set_[0], None)
        if taken in timers.deadlines and not (set_ and set_[0] == taken):
            waiting[taken] = 0
            if chance.random() < 0.5 and phase != 2:
                await timers.cycle((taken, None), ready=False)
                waiting.pop(taken)
        known += int(dut.earliest_valid_o.value)
        for index, deadline in timers.deadlines.items():
            if deadline < timers.now:
                waiting[index] = waiting.get(index, 0) + ready
                assert waiting[index] <= ROUND + 60, index
    assert known > 1_000


def test_timers():
    bench.run("timers", ["weft_pkg.sv", "stream/ram.sv", "rdma/timers.sv"], __file__)
