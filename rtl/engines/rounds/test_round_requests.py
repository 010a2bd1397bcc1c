"""round_requests: the queue of waiting proposals, their slots, and the callers that are answered."""

import collections

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly

import bench
import round_messages as messages
from streams import Bench
from structs import constant, pack

QUEUE, SLOTS = constant("RoundsQueue"), 2 * constant("RoundsWindow")
OWN, CHANGES = 0x80, 0xA0  # first slots of own proposals and of changes


class Requests(Bench):
    """The bench, with a model of a node's own proposals."""

    async def begin(self, number):
        for name in ("clear_i", "put_i", "begin_i", "told_i", "drain_i", "put_caller_i", "instance_i", "begin_change_i",
                     "begin_take_i"):
            getattr(self.dut, name).value = 0
        self.puts = 0
        self.forget(number)
        self.dut.round_i.value = number
        await self.start()

    def forget(self, number):
        self.round = number
        self.waiting = collections.deque()  # place, caller
        self.places = {}  # slots by instance; None if there is no proposal
        self.asked = {}  # callers by instance

    def compose(self):
        chance = self.chance
        return pack("caller_t", **messages.random_caller(chance))

    async def step(self, put=False, change=None, tell=None, drain=False):
        """Runs one cycle: a proposal arrives; the round begins, with a change or a waiting proposal; an instance's
        caller is answered."""
        dut = self.dut
        caller = self.compose()
        begins = change is not None
        takes = begins and not change and bool(self.waiting)
        dut.put_i.value, dut.put_caller_i.value = put, caller
        dut.begin_i.value, dut.begin_change_i.value, dut.begin_take_i.value = begins, bool(change), takes
        dut.told_i.value, dut.drain_i.value = tell is not None, drain
        look = tell if tell is not None else self.chance.choice([*self.places] or [self.round])
        dut.instance_i.value = look % 16
        await ReadOnly()
        assert int(dut.full_o.value) == (len(self.waiting) == QUEUE)
        assert int(dut.waiting_o.value) == bool(self.waiting)
        assert int(dut.put_place_o.value) == OWN + self.puts % 32
        assert int(dut.change_place_o.value) == CHANGES + self.round % 16
        if self.waiting:
            assert int(dut.take_place_o.value) == self.waiting[0][0]
        if look in self.places:
            place = self.places[look]
            assert int(dut.some_o.value) == (place is not None)
            if place is not None:
                assert int(dut.place_o.value) == place
            assert int(dut.asked_o.value) == (look in self.asked)
            if look in self.asked:
                assert int(dut.caller_o.value) == self.asked[look]
        await FallingEdge(dut.clk_i)
        for name in ("put_i", "begin_i", "told_i", "drain_i"):
            getattr(dut, name).value = 0
        if begins:
            self.places[self.round] = CHANGES + self.round % 16 if change else self.waiting[0][0] if takes else None
            self.places.pop(self.round - 16, None)
            if takes:
                self.asked[self.round] = self.waiting.popleft()[1]
        if put:
            self.waiting.append((OWN + self.puts % 32, caller))
            self.puts += 1
        if tell is not None:
            del self.asked[tell]

    async def next_round(self):
        self.round += 1
        self.dut.round_i.value = self.round
        await self.step()

    async def drain(self, rate):
        """The node stops. Returns the callers that are answered, as (begun, instance, caller)."""
        dut, told = self.dut, []
        await self.step(drain=True)
        for _ in range(200):
            dut.drain_ready_i.value = int(self.chance.random() < rate)
            await ReadOnly()
            draining = int(dut.draining_o.value)
            if draining and int(dut.drain_valid_o.value) and int(dut.drain_ready_i.value):
                begun = int(dut.drain_begun_o.value)
                told.append((begun, int(dut.drain_instance_o.value) if begun else None, int(dut.caller_o.value)))
            await FallingEdge(dut.clk_i)
            if not draining:
                break
        assert not draining
        dut.drain_ready_i.value = 0
        return told


@cocotb.test()
async def follows_the_model(dut):
    requests = Requests(dut, 6)
    chance = requests.chance
    await requests.begin(0)
    seen = collections.Counter()
    for _ in range(40):
        for _ in range(chance.randrange(60)):
            # The slot of the oldest remembered instance is needed again, so that instance is over and its caller is
            # answered.
            if requests.round - SLOTS in requests.asked:
                await requests.step(tell=requests.round - SLOTS)
            free = len(requests.waiting) < QUEUE
            await requests.step(put=free and chance.random() < 0.5, change=chance.random() < 0.15)
            seen["full"] += len(requests.waiting) == QUEUE
            # More proposals arrive while callers are answered, in any order.
            for _ in range(chance.choice((0, 1, 2, 2, 8))):
                tell = chance.choice([*requests.asked]) if requests.asked and chance.random() < 0.5 else None
                free = len(requests.waiting) < QUEUE
                await requests.step(put=free and chance.random() < 0.5, tell=tell)
                seen["told"] += tell is not None
            await requests.next_round()
        # All proposals that have begun are reported in slot order, then the waiting ones in their order.
        begun = sorted(requests.asked, key=lambda instance: instance % SLOTS)
        expected = [(1, instance, requests.asked[instance]) for instance in begun]
        expected += [(0, None, caller) for _, caller in requests.waiting]
        assert await requests.drain(chance.choice((1.0, 0.4))) == expected
        seen["drained while begun"] += len(begun)
        seen["drained while waiting"] += len(requests.waiting)
        # The node restarts, with the round of another cluster.
        requests.forget(chance.getrandbits(61))
        dut.round_i.value = requests.round
        if chance.random() < 0.3:
            dut.clear_i.value, requests.puts = 1, 0
            await FallingEdge(dut.clk_i)
            dut.clear_i.value = 0
        await requests.step()
    assert min(seen.values()) > 20, seen


@cocotb.test()
async def who_stops_with_nothing_tells_nobody(dut):
    requests = Requests(dut, 7)
    await requests.begin(3)
    assert await requests.drain(1.0) == []
    await requests.step(put=True)
    await requests.step(change=False)
    await requests.step(tell=3)
    assert await requests.drain(1.0) == []


def test_round_requests():
    sources = ["weft_pkg.sv", "engines/engines_pkg.sv", "engines/rounds/rounds_pkg.sv", "engines/rounds/round_requests.sv"]
    bench.run("round_requests", sources, __file__)
