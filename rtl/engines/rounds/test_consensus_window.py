"""consensus_window against a model of crates/engines/rounds/src/instance.rs: random clusters, omissions and false
records."""

import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly

import bench
from structs import constant, pack, unpack, width

WINDOW = constant("RoundsWindow")
NODES = range(constant("RoundsNodes"))


def bits(value):
    return bin(value).count("1")


class Instance:
    def __init__(self, node, members, row):
        self.node, self.members, self.round = node, members, 0
        self.rows = [row if k == node else 0 for k in NODES]
        self.suspected = self.accepted = self.heard_locked = 0
        self.locked, self.decision, self.adopted = False, None, None

    def record(self):
        decided = self.decision is not None
        rows = sum(row << 8 * k for k, row in enumerate(self.rows))
        return dict(rows=rows, suspected=self.suspected, decision=self.decision or 0, locked=int(self.locked),
                    decided=int(decided), valid=1)

    def receive(self, sender, record):
        """Processes a record. Returns whether it contradicts what the node knows."""
        rows = [record["rows"] >> 8 * k & 255 for k in NODES]
        told = record["decision"] if record["decided"] else None
        known = self.decision if self.decision is not None else self.adopted
        good = sender != self.node and rows[sender] and not record["suspected"] >> sender & 1
        good = good and not record["suspected"] & ~self.members
        for owner, row in enumerate(rows):
            good = good and (not row or (row >> owner & 1 and not row & ~self.members
                                         and self.rows[owner] in (0, row)))
        good = good and (told is None or (not told & ~self.members and known in (None, told)))
        if not good:
            return True
        if self.adopted is None:
            self.adopted = told
        if not (self.suspected >> sender & 1 or record["suspected"] >> self.node & 1):
            self.rows = [mine | row for mine, row in zip(self.rows, rows)]
            self.accepted |= 1 << sender
            self.heard_locked |= record["locked"] << sender
        return False

    def end(self):
        self.suspected |= self.members & ~self.accepted & ~(1 << self.node)
        count = bits(self.members)
        passive = bits(self.suspected) > (count - 1) // 2
        if not passive and (bits(self.suspected) <= self.round or self.heard_locked):
            self.locked = True
        if self.decision is None:
            held = sum((bits(sum((row >> p & 1) << k for k, row in enumerate(self.rows))) > (count - 1) // 2) << p
                       for p in NODES)
            equal = all(self.rows[k] == self.rows[self.node] for k in NODES if self.members >> k & 1)
            agreed = self.locked and bits(self.heard_locked) + 1 > count // 2
            if self.adopted is not None:
                self.decision = self.adopted
            elif not passive and (equal or agreed):
                self.decision = held
        self.accepted, self.adopted = 0, None
        self.round += 1


@cocotb.test()
async def follows_the_model(dut):
    chance = random.Random(7)
    cocotb.start_soon(Clock(dut.clk_i, 4, unit="ns").start())
    for name in ("clear_i", "receive_i", "end_round_i", "from_i", "area_i", "row_i", "members_i", "node_i"):
        getattr(dut, name).value = 0
    dut.rst_ni.value = 0
    for _ in range(2):
        await FallingEdge(dut.clk_i)
    dut.rst_ni.value = 1
    seen = dict(decided=0, undecided=0, contradictions=0)
    for _ in range(60):
        count = chance.randrange(1, 9)
        members = (1 << count) - 1
        node = chance.randrange(count)
        omission = chance.choice((0, 0.05, 0.3))
        false = chance.choice((0, 0, 0.1))
        dut.node_i.value, dut.members_i.value = node, members
        dut.clear_i.value = 1
        await FallingEdge(dut.clk_i)
        dut.clear_i.value = 0
        # For each node: its instances, the youngest last. One of the nodes is the device under test.
        cluster = [[None] * WINDOW for _ in range(count)]
        for _ in range(20):
            areas = [[i.record() if i else {} for i in window] for window in cluster]
            for sender in chance.sample(range(count), count):
                for receiver in range(count):
                    if sender == receiver or chance.random() < omission:
                        continue
                    area = [dict(record) for record in areas[sender]]
                    if chance.random() < false and receiver == node:
                        at = chance.randrange(WINDOW)
                        changed = pack("round_record_t", **area[at]) ^ 1 << chance.randrange(88)
                        area[at] = unpack("round_record_t", changed)
                    wrong = False
                    for instance, record in zip(cluster[receiver], area):
                        if instance and record.get("valid"):
                            wrong |= instance.receive(sender, record)
                    if receiver == node:
                        size = width("round_record_t")
                        packed = sum(pack("round_record_t", **record) << size * i for i, record in enumerate(area))
                        dut.receive_i.value, dut.from_i.value, dut.area_i.value = 1, sender, packed
                        await ReadOnly()
                        assert int(dut.contradiction_o.value) == int(wrong)
                        seen["contradictions"] += wrong
                        await FallingEdge(dut.clk_i)
                        dut.receive_i.value = 0
            rows = [chance.choice((members, members, chance.getrandbits(count))) | 1 << k for k in range(count)]
            # The round must not end in the cycle after an area.
            await FallingEdge(dut.clk_i)
            dut.end_round_i.value, dut.row_i.value = 1, rows[node]
            await ReadOnly()
            leaving = unpack("instance_t", dut.leaving_o.value)
            for index, window in enumerate(cluster):
                for instance in window:
                    if instance:
                        instance.end()
                left = window.pop(0)
                window.append(Instance(index, members, rows[index]))
                if index == node and left:
                    decided = left.decision is not None
                    assert (leaving["valid"], leaving["decided"]) == (1, int(decided))
                    assert leaving["decision"] == (left.decision or 0)
                    seen["decided" if decided else "undecided"] += 1
            await FallingEdge(dut.clk_i)
            dut.end_round_i.value = 0
            await ReadOnly()
            area = int(dut.area_o.value)
            for i, instance in enumerate(cluster[node]):
                record = unpack("round_record_t", area >> width("round_record_t") * i & (1 << 96) - 1)
                expected = instance.record() if instance else {}
                for name in ("rows", "suspected", "decision", "locked", "decided", "valid"):
                    assert record[name] == expected.get(name, 0), (name, i, record, expected)
            await FallingEdge(dut.clk_i)
    assert min(seen.values()) > 10, seen


def test_consensus_window():
    sources = ["weft_pkg.sv", "engines/engines_pkg.sv", "engines/rounds/rounds_pkg.sv"]
    sources += [f"engines/rounds/consensus_{name}.sv" for name in ("instance", "window")]
    bench.run("consensus_window", sources, __file__)
