"""Models of everything around request_side in its tests: table, region check, placement, driver, wire."""

import random
from collections import Counter, deque

from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly

import cocotb
from structs import PACKAGE_TYPES, constant, pack, unpack

QUEUE_PAIRS = constant("QueuePairs")
LKEY = 0x1000
PEER = 0x0A000002
EVENTS = [name for name, _, _ in PACKAGE_TYPES.structs["request_side_events_t"]]


class Region:
    def __init__(self, base=0, length=1 << 20, writable=True, target=3):
        self.base, self.length, self.writable, self.target = base, length, writable, target

    def grants(self, address, length, local_write):
        inside = self.base <= address and address + length <= self.base + self.length
        return inside and (self.writable or not local_write)


def attributes(number, **changes):
    values = dict(
        number=number,
        destination_qp=0x777,
        destination=PEER,
        path_mtu=1,
        max_rd_atomic=4,
        max_dest_rd_atomic=4,
        timeout=8,
        retry_count=7,
        rnr_retry=7,
        domain=5,
    )
    values.update(changes)
    return values


class Bench:
    """Drives every port on the falling edge and samples all outputs before the rising one."""

    def __init__(self, dut, seed=1, stall=0.0):
        self.dut = dut
        self.chance = random.Random(seed)
        self.stall = stall
        self.table = {}
        self.regions = {LKEY: Region()}
        self.now = 1000
        self.jump = 0
        self.posts, self.controls, self.fails, self.headers = deque(), deque(), deque(), deque()
        self.transmitted, self.completions, self.verdicts, self.failed = [], [], [], []
        self.counters = Counter()
        self.advances = deque()
        self.grants = deque([None] * 3)
        self.table_next = None
        self.post_table_next = None
        self.controls_done = 0
        self.queries = deque()
        self.answers = []
        self.headers_taken = 0
        self.cycle_count = 0
        self.advance_hold = 0
        # Called for each packet that is sent, with the packet.
        self.on_transmit = None

    async def start(self, clock=True):
        dut = self.dut
        if clock:
            cocotb.start_soon(Clock(dut.clk_i, 4, unit="ns").start())
        await FallingEdge(dut.clk_i)
        for name in (
            "post_valid_i control_valid_i fail_valid_i fail_ready_i header_valid_i verdict_ready_i advance_valid_i"
            " transmit_ready_i completion_ready_i query_valid_i"
        ).split():
            getattr(dut, name).value = 0
        dut.now_i.value = self.now
        dut.rst_ni.value = 0
        for _ in range(2):
            await FallingEdge(dut.clk_i)
        dut.rst_ni.value = 1
        self.valids = {}

    def offer(self, name, queue, struct):
        """Offers the first element of a queue; an offer stays until accepted."""
        held = self.valids.get(name, False)
        valid = bool(queue) and (held or self.chance.random() >= self.stall)
        if valid != held or name not in self.valids:
            getattr(self.dut, f"{name}_valid_i").value = int(valid)
        if valid and not held:
            value = queue[0]
            getattr(self.dut, f"{name}_i").value = pack(struct, **value) if struct else value
        self.valids[name] = valid

    def taken(self, name, queue):
        if self.valids[name] and int(getattr(self.dut, f"{name}_ready_o").value):
            self.valids[name] = None
            del self.valids[name]
            getattr(self, name + "_hook", lambda _: None)(queue[0])
            return queue.popleft()
        return None

    async def cycle(self):
        dut = self.dut
        await FallingEdge(dut.clk_i)
        self.cycle_count += 1
        self.now += 1 + self.jump
        self.jump = 0
        dut.now_i.value = self.now
        self.offer("post", self.posts, "work_request_t")
        self.offer("control", self.controls, "control_t")
        self.offer("fail", self.fails, None)
        self.offer("header", self.headers, "roce_header_t")
        if self.advance_hold:
            self.advance_hold -= 1
        held = self.valids.get("advance", False)
        valid = bool(self.advances) and (held or (not self.advance_hold and self.chance.random() >= self.stall))
        dut.advance_valid_i.value = int(valid)
        if valid and not held:
            qp, advance = self.advances[0]
            dut.advance_qp_i.value = qp
            dut.advance_i.value = pack("advance_t", **advance)
        self.valids["advance"] = valid
        if self.table_next is not None:
            dut.table_data_i.value = self.table_next
        if self.post_table_next is not None:
            dut.post_table_data_i.value = self.post_table_next
        grant = self.grants.popleft()
        if grant is not None:
            dut.grant_i.value = grant
        for name in ("verdict", "transmit", "completion", "fail"):
            getattr(dut, f"{name}_ready_i").value = int(self.chance.random() >= self.stall)
        dut.query_valid_i.value = int(bool(self.queries))
        if self.queries:
            dut.query_index_i.value = self.queries[0]
        await ReadOnly()
        self.look()

    def packed_attributes(self, index):
        return pack("queue_pair_t", **self.table.get(int(index), {}))

    def look(self):
        dut = self.dut
        self.table_next = (
            self.packed_attributes(dut.table_index_o.value) if int(dut.table_read_o.value) else None
        )
        self.post_table_next = (
            self.packed_attributes(dut.post_table_index_o.value) if int(dut.post_table_read_o.value) else None
        )
        grant = None
        if int(dut.check_valid_o.value):
            check = unpack("access_request_t", dut.check_o.value)
            assert not check["remote"] and check["bytes"] > 0 and check["domain"] == 5
            region = self.regions.get(check["key"])
            needs = check["needs"]["local_write"]
            ok = region is not None and region.grants(check["address"], check["bytes"], needs)
            verdict = 0 if ok else (1 if region is None else 3)
            grant = pack("access_grant_t", verdict=verdict, target=region.target if region else 0)
        self.grants.append(grant)
        self.taken("post", self.posts)
        self.taken("control", self.controls)
        self.taken("fail", self.fails)
        if self.taken("header", self.headers):
            self.headers_taken += 1
        if self.valids["advance"] and int(dut.advance_ready_o.value):
            self.advances.popleft()
            self.valids["advance"] = False
        if int(dut.control_done_o.value):
            self.controls_done += 1
        if int(dut.query_done_o.value):
            self.queries.popleft()
            self.answers.append(unpack("requester_query_t", dut.query_o.value))
        if int(dut.verdict_valid_o.value) and int(dut.verdict_ready_i.value):
            verdict = unpack("placement_t", dut.verdict_o.value)
            self.verdicts.append(verdict)
            advance = verdict["consequence"]["advance"]
            assert verdict["packet"] or advance["kind"], "a verdict about nothing"
            if advance["kind"]:
                self.advances.append((verdict["consequence"]["qp"], advance))
                if self.stall:
                    self.advance_hold = self.chance.randrange(12)
        if int(dut.transmit_valid_o.value) and int(dut.transmit_ready_i.value):
            packet = unpack("transmit_t", dut.transmit_o.value)
            packet["cycle"] = self.cycle_count
            self.transmitted.append(packet)
            if self.on_transmit:
                self.on_transmit(packet)
        if int(dut.completion_valid_o.value) and int(dut.completion_ready_i.value):
            self.completions.append(unpack("completion_t", dut.completion_o.value))
        if int(dut.fail_valid_o.value) and int(dut.fail_ready_i.value):
            self.failed.append(int(dut.fail_o.value))
        events = int(dut.events_o.value)
        if events:
            for name, count in unpack("request_side_events_t", events).items():
                if count:
                    self.counters[name] += count

    def busy(self):
        return (
            self.posts or self.controls or self.fails or self.headers or self.advances or self.queries
            or any(grant is not None for grant in self.grants)
            or not int(self.dut.idle_o.value)
        )

    async def settle(self, limit=20_000):
        """Runs until nothing is in progress."""
        for _ in range(limit):
            await self.cycle()
            if not self.busy():
                return
        raise AssertionError("it does not come to rest")

    async def pass_time(self):
        """Advances the time to the earliest deadline. Returns whether there is one."""
        if not int(self.dut.armed_o.value):
            return False
        while not int(self.dut.earliest_valid_o.value):
            await self.cycle()
        earliest = int(self.dut.earliest_o.value)
        self.jump = max(0, earliest - self.now)
        # The scanner needs a round to find the expired deadline.
        for _ in range(QUEUE_PAIRS + 8):
            await self.cycle()
        return True

    async def control(self, operation, qp, argument=0):
        done = self.controls_done
        self.controls.append(dict(operation=constant(operation), qp=qp, argument=argument))
        while self.controls_done == done:
            await self.cycle()

    async def query(self, qp):
        count = len(self.answers)
        self.queries.append(qp)
        while len(self.answers) == count:
            await self.cycle()
        return self.answers[-1]

    async def connect(self, qp, psn, **changes):
        self.table[qp] = attributes(0x200 | qp if qp < 0x200 else qp, **changes)
        await self.control("ControlSend", qp, psn)

    def header(self, qp, opcode, psn, **values):
        number = self.table[qp]["number"]
        self.headers.append(
            dict(
                opcode=opcode, psn=psn, destination_qp=number, source=PEER, partition_key=0xFFFF, payload_offset=58
            )
            | values
        )
