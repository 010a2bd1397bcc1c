"""round_membership against a model of crates/engines/rounds/src/membership.rs: decided changes, accusations, silence."""

import collections

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly

import bench
from streams import Bench
from structs import constant, pack, unpack

NODES = range(constant("RoundsNodes"))
WINDOW, MOST = constant("RoundsWindow"), constant("RoundsMembersMax")
DELAY = constant("RoundsChangeDelay")


def bits(value):
    return bin(value).count("1")


class Model:
    """A model of the membership. Sets are integers."""

    def __init__(self, node, silence, first, epoch, members):
        self.node, self.silence = node, silence
        self.round = self.since = first
        self.epoch, self.members, self.former, self.next = epoch, members, members, None
        self.heard = [first] * len(NODES)
        self.accusers = [0] * len(NODES)
        self.joining, self.leaving, self.proposed = 0, False, None

    def coming(self):
        return self.next[1] if self.next else 0

    def audience(self):
        former = self.former if self.round < self.since + WINDOW else 0
        return (self.members | former | self.coming()) & ~(1 << self.node)

    def has_left(self):
        return not self.members >> self.node & 1 and self.round >= self.since + 2 * WINDOW

    def advance(self):
        self.round += 1
        if not self.next or self.next[0] != self.round:
            return False
        for node in NODES:
            if self.next[1] & ~self.members & 1 << node:
                self.heard[node] = self.round
        self.former, self.members = self.members, self.next[1]
        self.since, self.next = self.round, None
        self.epoch = self.epoch + 1 & 0xFFFF
        return True

    def ask(self, node):
        if bits(self.members | 1 << node) <= MOST and not (self.members | self.coming()) & 1 << node:
            self.joining |= 1 << node

    def propose(self):
        if self.next or self.proposed is not None or not self.members >> self.node & 1:
            return None
        remove = 0
        for node in NODES:
            reason = self.leaving if node == self.node else self.round - self.heard[node] > self.silence
            if self.members >> node & 1 and reason and not self.accusers[node] >> self.node & 1:
                remove |= 1 << node
        add, self.joining = self.joining & ~self.members, 0
        if not add and not remove:
            return None
        self.proposed = self.round
        return dict(add=add, remove=remove)

    def decided(self, instance, proposer, change):
        if self.next or instance < self.since:
            return
        for node in NODES:
            if change["remove"] >> node & 1:
                self.accusers[node] |= 1 << proposer
        enough = (bits(self.members) - 1) // 2 + 1
        remove = 0
        for node in NODES:
            accusers = self.accusers[node] & self.members
            if self.members >> node & 1 and (accusers >> node & 1 or bits(accusers) >= enough):
                remove |= 1 << node
        members = (self.members | change["add"] & ~change["remove"]) & ~remove
        if members != self.members and 1 <= bits(members) <= MOST:
            self.next = (instance + DELAY, members)
            self.accusers = [0] * len(NODES)

    def closed(self, instance):
        if self.proposed == instance:
            self.proposed = None


class Members(Bench):
    PULSES = "start_i advance_i announce_i hear_i ask_i leave_i decided_i closed_i".split()

    async def reset(self, silence):
        for name in ("node_i", "silence_i", "start_epoch_i", "start_members_i", "from_i", "decided_proposer_i",
                     "decided_change_i", "decided_age_i", "closed_age_i", *self.PULSES):
            getattr(self.dut, name).value = 0
        self.silence = silence
        await self.start(silence_i=silence)

    async def pulse(self, **inputs):
        for name, value in inputs.items():
            getattr(self.dut, name).value = value
        await ReadOnly()
        changes = int(self.dut.changes_o.value)
        await FallingEdge(self.dut.clk_i)
        for name in self.PULSES:
            getattr(self.dut, name).value = 0
        return changes

    async def begin(self, node, first, epoch, members, at_once):
        """The node takes part from round `first` on, which begins now (`at_once`) or later."""
        self.model = Model(node, self.silence, first, epoch, members)
        start = dict(node_i=node, start_i=1, start_epoch_i=epoch, start_members_i=members)
        if at_once:
            await self.pulse(**start, advance_i=1)
        else:
            await self.pulse(**start)
            await self.check()
            await self.pulse(advance_i=1)
        await self.announce()

    async def announce(self):
        """The change that the node proposes in the round that has begun."""
        await self.cycles(self.chance.randrange(3))
        self.dut.announce_i.value = 1
        await ReadOnly()
        change = unpack("change_t", self.dut.change_o.value) if int(self.dut.change_valid_o.value) else None
        assert change == self.model.propose()
        await FallingEdge(self.dut.clk_i)
        self.dut.announce_i.value = 0
        await self.check()
        return change

    async def next_round(self):
        changes = await self.pulse(advance_i=1)
        assert changes == self.model.advance()
        return changes

    async def hear(self, node):
        self.model.heard[node] = self.model.round
        await self.pulse(hear_i=1, from_i=node)

    async def ask(self, node):
        self.model.ask(node)
        await self.pulse(ask_i=1, from_i=node)

    async def decide(self, instance, decisions):
        """Decides the changes (proposer, change) one after the other, and then closes the instance."""
        for proposer, change in decisions:
            self.model.decided(instance, proposer, change)
            await self.pulse(decided_i=1, decided_proposer_i=proposer, decided_change_i=pack("change_t", **change),
                             decided_age_i=self.model.round - instance)
        self.model.closed(instance)
        await self.pulse(closed_i=1, closed_age_i=self.model.round - instance)
        # A change takes effect after three cycles.
        await self.cycles(2)

    async def check(self):
        await ReadOnly()
        dut, model = self.dut, self.model
        assert int(dut.epoch_o.value) == model.epoch
        assert int(dut.members_o.value) == model.members
        assert int(dut.ahead_o.value) == (model.next[0] - model.round if model.next else 0)
        assert int(dut.next_o.value) == model.coming()
        assert int(dut.audience_o.value) == model.audience()
        assert int(dut.left_o.value) == model.has_left()
        await FallingEdge(dut.clk_i)


@cocotb.test()
async def follows_the_model(dut):
    members = Members(dut, 8)
    chance = members.chance
    await members.reset(silence=9)
    seen = collections.Counter()
    for _ in range(60):
        node = chance.randrange(8)
        others = chance.sample([other for other in NODES if other != node], chance.randrange(MOST))
        first = chance.choice((0, 1, chance.getrandbits(40)))
        await members.begin(node, first, chance.choice((1, 0xFFFF, 77)), sum(1 << other for other in [node, *others]),
                            at_once=chance.random() < 0.5)
        model, proposals = members.model, {}
        released = first
        silent = chance.sample(range(8), chance.choice((0, 0, 1, 2)))
        for _ in range(chance.randrange(20, 90)):
            for other in chance.sample(range(8), 8):
                if model.audience() >> other & 1 and other not in silent and chance.random() < 0.9:
                    await members.hear(other)
            if chance.random() < 0.1:
                await members.ask(chance.choice([other for other in NODES if other != node]))
                seen["asked"] += 1
            if chance.random() < 0.01:
                model.leaving = True
                await members.pulse(leave_i=1)
            # Instances are decided in order, at an age of up to two windows. The node's own proposals may be among
            # the decisions.
            last = max(released, model.round - chance.randrange(1, 2 * WINDOW))
            while released < last or (released < model.round and model.round - released == 2 * WINDOW - 1):
                decisions = [(node, proposals[released])] if released in proposals and chance.random() < 0.8 else []
                if chance.random() < 0.1:
                    some = chance.sample([other for other in NODES if other != node], chance.choice((1, 2, 3)))
                    target = chance.choice((*silent, chance.randrange(8)))
                    decisions += [
                        (other, dict(add=chance.choice((0, 0, chance.getrandbits(8))), remove=chance.choice((0, 1 << target))))
                        for other in some
                    ]
                await members.decide(released, sorted(decisions, key=lambda decision: decision[0]))
                released += 1
            await members.check()
            had = model.next
            seen["changed"] += await members.next_round()
            seen["known ahead"] += bool(had)
            seen["left"] += model.has_left()
            change = await members.announce()
            if change:
                proposals[model.round] = change
                seen["added"] += change["add"] != 0
                seen["accused"] += change["remove"] != 0
            if model.has_left():
                break
    assert min(seen.values()) > 5, seen


@cocotb.test()
async def of_changes_in_a_row_the_first_counts(dut):
    """Changes are decided in every cycle. After one that applies, those that follow it have no effect, in
    whichever cycle they come."""
    members = Members(dut, 9)
    await members.reset(silence=200)
    for count in range(1, 6):
        await members.begin(0, 0, 1, 0b111, at_once=True)
        for _ in range(3):
            await members.next_round()
            await members.announce()
        changes = [(proposer, dict(add=1 << 3 + proposer, remove=0)) for proposer in range(count)]
        await members.decide(1, changes)
        await members.check()
        assert members.model.next == (1 + DELAY, 0b1111)


@cocotb.test()
async def so_many_accusers_remove_a_member(dut):
    """Of three members, two must accuse a member to remove it; a member that accuses itself leaves at once."""
    members = Members(dut, 10)
    await members.reset(silence=200)
    accuse = dict(add=0, remove=0b100)
    for proposers, goes in (((0,), False), ((0, 0), False), ((0, 1), True), ((2,), True), ((7, 6), False)):
        await members.begin(0, 0, 1, 0b111, at_once=True)
        await members.next_round()
        await members.announce()
        await members.decide(0, [(proposer, accuse) for proposer in proposers])
        await members.check()
        assert (members.model.next is not None) == goes


def test_round_membership():
    sources = ["weft_pkg.sv", "engines/engines_pkg.sv", "engines/rounds/rounds_pkg.sv", "engines/rounds/round_membership.sv"]
    bench.run("round_membership", sources, __file__)
