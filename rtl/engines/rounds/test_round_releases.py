"""round_releases: decisions are released in order and once, and missing proposals are requested, as in
crates/engines/rounds/src/ckc.rs."""

import collections

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly, ReadWrite

import bench
import round_messages as messages
from streams import Bench
from structs import constant, pack, unpack, width

NODES = range(constant("RoundsNodes"))
WINDOW, MOST = constant("RoundsWindow"), constant("RoundsMembersMax")
SUBSCRIBER = dict(kind=1, mac=1, address=2, port=3)
CONTEXT = dict(phase=constant("RoundsRunning"), epoch=0x1234, members=0b10111)


def nodes(members):
    return [node for node in NODES if members >> node & 1]


class Instance:
    """An instance from this node's point of view. Sets are integers."""

    def __init__(self, chance, number, node, decides_after):
        others = chance.sample([other for other in NODES if other != node], chance.randrange(MOST))
        self.number, self.members = number, sum(1 << member for member in [node, *others])
        some = lambda: sum(1 << member for member in nodes(self.members) if chance.random() < 0.8)  # noqa: E731
        self.decision, self.decides_after, self.decided = some(), decides_after, False
        # The rows of some members are unknown.
        self.rows = [some() | 1 << k if self.members >> k & 1 and chance.random() < 0.8 else 0 for k in NODES]
        # Proposals that the node holds at the end of its first round, and later.
        self.held = (some() if chance.random() < 0.5 else self.decision) | 1 << node
        self.asked = False  # missing proposals were requested once
        self.caller = dict(kind=2, mac=number & 0xFFFF, address=0, port=number & 7) if chance.random() < 0.6 else None
        # For each proposer: the proposal's length, its slot, whether it is a change, and the change.
        self.proposals = {
            proposer: (8 if change else chance.choice((0, 1, 64, 448)), chance.randrange(256), change,
                       dict(add=chance.randrange(256), remove=chance.randrange(256)))
            for proposer in NODES for change in [chance.random() < 0.15]
        }

    def lacking(self):
        return self.decision & ~self.held if self.decided else 0

    def state(self):
        return pack("instance_t", valid=1, members=self.members, decided=self.decided,
                    decision=self.decision if self.decided else 0, rows=sum(row << 8 * k for k, row in enumerate(self.rows)))


class Releases(Bench):
    """The node's instances, and their expected releases."""

    async def begin(self, first, node):
        dut = self.dut
        for name in ("clear_i", "end_round_i", "go_i", "fetch_i", "value_i", "asked_i", "change_i", "instances_i", "leaving_i",
                     "row_i", "newest_i", "look_age_i", "look_slot_i", "value_proposer_i", "place_i", "length_i", "content_i",
                     "caller_i"):
            getattr(dut, name).value = 0
        self.gate = 1.0
        self.subscribed = True
        self.sent, self.told, self.decided, self.closed = [], [], [], []
        dut.context_i.value = pack("rounds_context_t", **CONTEXT)
        dut.subscriber_i.value = pack("caller_t", **SUBSCRIBER)
        self.instances, self.leaving = {}, 0
        self.round = self.next = first
        dut.node_i.value = self.node = node
        dut.round_i.value = first
        await self.start()
        cocotb.start_soon(self.serve())
        await self.clear(first, node)

    async def clear(self, first, node):
        """The node restarts: round `first` begins, and with it the first instance."""
        dut = self.dut
        dut.clear_i.value, dut.first_i.value = 1, first
        dut.node_i.value = self.node = node
        await FallingEdge(dut.clk_i)
        dut.clear_i.value = 0
        self.instances, self.leaving = {}, 0
        self.round = self.next = first
        self.open()
        self.show()

    async def serve(self):
        """Plays the surrounding engine: provides the data of the instance that is being released, and receives the
        messages."""
        dut = self.dut
        while True:
            dut.send_ready_i.value = int(self.chance.random() < self.gate)
            dut.subscribed_i.value = self.subscribed
            await ReadWrite()
            instance, proposer = self.instances.get(int(dut.next_o.value)), int(dut.proposer_o.value)
            if instance:
                length, place, change, content = instance.proposals[proposer]
                dut.length_i.value, dut.place_i.value, dut.change_i.value = length, place, change
                dut.content_i.value = pack("change_t", **content)
                dut.asked_i.value = instance.caller is not None
                dut.caller_i.value = pack("caller_t", **(instance.caller or {}))
            await ReadOnly()
            told = int(dut.told_o.value)
            if int(dut.send_valid_o.value) and int(dut.send_ready_i.value):
                self.sent.append(unpack("rounds_send_t", dut.send_o.value))
            if int(dut.decided_o.value):
                content = unpack("change_t", dut.decided_change_o.value) if int(dut.decides_change_o.value) else None
                self.decided.append((int(dut.next_o.value), int(dut.age_o.value), int(dut.decided_proposer_o.value), content))
            if int(dut.closed_o.value):
                self.closed.append(int(dut.next_o.value))
            await FallingEdge(dut.clk_i)
            if told:
                self.told.append(instance.number)
                instance.caller = None

    def open(self):
        """Opens the instance of the round that begins, if the node takes part in it."""
        if not self.leaving:
            after = self.chance.choice((1, 1, 2, 3, 4))
            self.instances[self.round] = Instance(self.chance, self.round, self.node, after)

    def show(self):
        """Drives the window, and the instance that would leave if the round ended now."""
        dut, window = self.dut, [self.instances.get(self.round - WINDOW + place) for place in range(WINDOW)]
        bits = width("instance_t")
        states = [instance.state() if instance else 0 for instance in window]
        dut.instances_i.value = sum(state << bits * place for place, state in enumerate(states))
        dut.leaving_i.value = states[0]
        own = self.instances.get(self.round)
        dut.row_i.value = own.held if own else 0
        dut.newest_i.value = self.leaving
        dut.round_i.value = self.round

    async def end_round(self, leaves=False):
        """Ends a round. Instances that are due are decided in it; the oldest one always is."""
        oldest = self.instances.get(self.round - WINDOW)
        if oldest:
            oldest.decided = True
            self.show()
        self.dut.end_round_i.value = 1
        await FallingEdge(self.dut.clk_i)
        self.dut.end_round_i.value = 0
        self.round += 1
        if leaves or self.leaving:
            self.leaving += 1
        self.open()
        for instance in self.instances.values():
            instance.decided |= 0 < instance.decides_after < self.round - instance.number
        self.instances.pop(self.round - 2 * WINDOW - 1, None)
        self.show()

    def expected_fetches(self):
        """The requests expected with `fetch`: first to one holder, then to all."""
        out = []
        for number in range(self.next, self.round):
            instance = self.instances.get(number)
            wanted = instance.lacking() if instance else 0
            if not wanted:
                continue
            holders = sum(1 << k for k, row in enumerate(instance.rows) if row & wanted)
            holders = (holders or instance.members) & ~(1 << self.node)
            targets = nodes(holders)
            if targets and not instance.asked:
                holders = 1 << targets[(self.round % 64 + self.node) % len(targets)]
            instance.asked = True
            if targets:
                head = messages.number_of(messages.fetch(number, wanted))
                out.append(dict(to=holders, message=messages.FETCH, head=head, head_bytes=16))
        return out

    def expected_releases(self):
        """The expected messages, decisions, closed instances, and callers that are answered."""
        out, decided, closed, told = [], [], [], []
        while self.next < self.round and (instance := self.instances.get(self.next)):
            if not instance.decided or instance.lacking():
                break
            tells = instance.caller
            for proposer in nodes(instance.decision):
                length, place, change, content = instance.proposals[proposer]
                if not length:
                    continue
                decided.append((self.next, self.round - self.next, proposer, content if change else None))
                if self.subscribed:
                    head = messages.number_of(messages.value(self.next, proposer, bytes(length), change)[:16])
                    out.append(dict(reply=1, caller=SUBSCRIBER, message=messages.DECIDED, head=head, head_bytes=64,
                                    bytes=length, place=place))
                if proposer == self.node and tells and not change:
                    out.append(self.answer(messages.OK, tells))
                    told.append(self.next)
                    tells = None
            if tells:
                out.append(self.answer(messages.DROPPED, tells))
                told.append(self.next)
            closed.append(self.next)
            self.next += 1
        return out, decided, closed, told

    def answer(self, status, caller):
        head = messages.number_of(messages.answer(status, self.next, **CONTEXT))
        return dict(reply=1, caller=caller, message=messages.ANSWER, head=head, head_bytes=16)

    async def go(self, fetch, value=None):
        """Lets the device fetch and release (or release after a Value arrived), and compares its outputs with the
        expected ones."""
        dut = self.dut
        for done in (self.sent, self.told, self.decided, self.closed):
            done.clear()
        if value:
            instance, proposer = value
            dut.value_i.value, dut.value_proposer_i.value = 1, proposer
            dut.look_age_i.value, dut.look_slot_i.value = self.round - instance.number, instance.number % 8
            instance.held |= 1 << proposer
        fetches = self.expected_fetches() if fetch else []
        releases, decided, closed, told = self.expected_releases()
        dut.go_i.value, dut.fetch_i.value = 1, fetch
        await FallingEdge(dut.clk_i)
        dut.go_i.value = dut.value_i.value = 0
        for _ in range(2_000):
            await ReadOnly()
            idle = int(dut.idle_o.value)
            assert not int(dut.asking_o.value) or fetch
            await FallingEdge(dut.clk_i)
            if idle:
                break
        assert idle
        sent = [unpack("rounds_send_t", pack("rounds_send_t", **send)) for send in fetches + releases]
        assert self.sent == sent
        assert (self.decided, self.closed, self.told) == (decided, closed, told)
        return len(fetches)

    async def look(self, number):
        """Looks up the present and missing proposals of an instance; the result comes one cycle later."""
        instance = self.instances[number]
        self.dut.look_age_i.value, self.dut.look_slot_i.value = self.round - number, number % 8
        await FallingEdge(self.dut.clk_i)
        await ReadOnly()
        assert int(self.dut.held_o.value) == instance.held
        assert int(self.dut.lacking_o.value) == instance.lacking()
        await FallingEdge(self.dut.clk_i)


@cocotb.test()
async def follows_the_model(dut):
    releases = Releases(dut, 11)
    chance = releases.chance
    await releases.begin(0, 2)
    seen = collections.Counter()
    for life in range(60):
        releases.gate = chance.choice((1.0, 0.5))
        releases.subscribed = life % 5 != 0
        patience = chance.choice((0.9, 0.3))
        leaves_at = chance.choice((None, chance.randrange(3, 12)))
        for step in range(chance.randrange(5, 40)):
            seen["asked one or all"] += await releases.go(fetch=True)
            seen["closed"] += len(releases.closed)
            for send in releases.sent:
                seen["dropped"] += send["message"] == messages.ANSWER and send["head"] & 255 == messages.DROPPED
                seen["asked all"] += send["message"] == messages.FETCH and bin(send["to"]).count("1") > 1
            for number in list(releases.instances):
                if releases.round - number < 2 * WINDOW and chance.random() < 0.5:
                    await releases.look(number)
            # Values arrive in any order. If an instance's slot is needed in the next round, all of its values arrive.
            for number, instance in list(releases.instances.items()):
                late = releases.round - number >= 2 * WINDOW - 1
                for proposer in chance.sample(nodes(instance.lacking()), len(nodes(instance.lacking()))):
                    if late or chance.random() < 1 - patience:
                        seen["closed by a value"] -= len(releases.closed)
                        await releases.go(fetch=False, value=(instance, proposer))
                        seen["closed by a value"] += len(releases.closed)
                        seen["value behind the window"] += releases.round - number > WINDOW
            if releases.leaving and releases.leaving > 2 * WINDOW - 2:
                seen["left"] += 1
                break
            await releases.end_round(leaves=step == leaves_at)
        await releases.clear(chance.choice((0, chance.getrandbits(61))), chance.randrange(8))
    assert min(seen.values()) > 5, seen


@cocotb.test()
async def the_first_value_after_four_cycles(dut):
    releases = Releases(dut, 12)
    await releases.begin(40, 0)
    for proposals in (1, 5):
        await releases.clear(40, 0)
        instance = releases.instances[40]
        instance.members = instance.decision = instance.held = (1 << proposals) - 1
        instance.decides_after, instance.caller = 1, None
        for proposer in NODES:
            instance.proposals[proposer] = (64, proposer, False, dict(add=0, remove=0))
        releases.show()
        await releases.end_round()
        releases.instances[41].decides_after = 4
        await releases.end_round()
        dut.go_i.value, dut.fetch_i.value = 1, 1
        given = []
        for cycle in range(30):
            await ReadOnly()
            if int(dut.send_valid_o.value):
                given.append(cycle)
            await FallingEdge(dut.clk_i)
            dut.go_i.value = 0
        assert given == list(range(4, 4 + proposals))


def test_round_releases():
    sources = ["weft_pkg.sv", "engines/engines_pkg.sv", "engines/rounds/rounds_pkg.sv", "engines/rounds/round_releases.sv"]
    bench.run("round_releases", sources, __file__)
