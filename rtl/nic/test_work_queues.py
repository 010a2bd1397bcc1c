"""work_queues: posts and completions through rings in the host's memory, with wrap-around, errors and stalls."""

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly

import bench
from axi_model import AxiSlave
from streams import Bench
from structs import constant, pack, unpack

POSTS, COMPLETIONS = 0x1_0000, 0x2_0000
POST_SIZE, COMPLETION_SIZE = 5, 3  # log2 of the number of entries
ENTRY = 64
RECEIVE = constant("PostedReceive")
# Latencies in cycles, as in the block's header.
DOORBELL_TO_ADDRESS, DATA_TO_POST, COMPLETION_TO_ADDRESS = 2, 2, 2


class Queues(Bench):
    """The block, a model of the host's memory, and the host's counters."""

    async def ready(self, latency=(1, 40), ready=0.7, rate=1.0):
        self.memory = AxiSlave(self.dut, "", 0x3_0000, self.chance, self, latency, ready)
        self.registers = {
            "post_size": POST_SIZE, "completion_size": COMPLETION_SIZE, "post_base": POSTS,
            "completion_base": COMPLETIONS, "post_produced": 0, "completion_consumed": 0, "enable": 0,
            "interrupt_enable": 1,
        }
        self.log = []  # (signal, cycle) for each cycle in which one of the signals is high
        self.set()
        cocotb.start_soon(self.host_memory())
        await self.start()
        self.requests = self.take("post", ["_o"], rate)
        self.receives = self.take("receive_post", ["_o"], rate)
        self.set(enable=1)
        await self.until(lambda: self.reading("running"))

    def set(self, **registers):
        self.registers.update(registers)
        self.dut.registers_i.value = pack("queue_registers_t", **self.registers)

    def reading(self, name):
        return unpack("queue_readings_t", self.dut.readings_o.value)[name]

    async def host_memory(self):
        while True:
            await FallingEdge(self.dut.clk_i)
            self.now += 1
            self.memory.drive()
            await ReadOnly()
            for name in ("ar_valid_o", "r_valid_i", "post_valid_o", "aw_valid_o", "completion_valid_i"):
                if int(getattr(self.dut, name).value):
                    self.log.append((name, self.now))
            self.memory.sample()

    async def until(self, condition, limit=5_000):
        for _ in range(limit):
            await self.cycles(1)
            if condition():
                return
        raise AssertionError(f"{self.reading('post_consumed')} posts consumed, {len(self.requests)} requests")

    def post(self, *entries):
        produced = self.registers["post_produced"]
        for entry in entries:
            place = POSTS + ENTRY * (produced % (1 << POST_SIZE))
            self.memory.memory[place:place + ENTRY] = pack("posted_entry_t", **entry).to_bytes(ENTRY, "little")
            produced += 1
        self.set(post_produced=produced & 0xFFFF)

    def completed(self):
        """Consumes and returns the new completion entries."""
        entries = []
        while True:
            consumed = self.registers["completion_consumed"]
            place = COMPLETIONS + ENTRY * (consumed % (1 << COMPLETION_SIZE))
            entry = unpack("completed_entry_t", int.from_bytes(self.memory.memory[place:place + ENTRY], "little"))
            if entry["phase"] == (consumed >> COMPLETION_SIZE & 1):
                return entries
            entries.append(entry)
            self.set(completion_consumed=consumed + 1 & 0xFFFF)

    def first(self, name):
        return next(now for what, now in self.log if what == name)


def request(number, **fields):
    return {"operation": number % 5, "qp": number % 8, "id": number, "length": 64, "signaled": 1, **fields}


@cocotb.test()
async def entries_are_posted_in_order_around_the_rings(dut):
    queues = Queues(dut, 1)
    await queues.ready(rate=0.7)
    entries = [request(number) if queues.chance.random() < 0.8 else request(number, operation=RECEIVE)
               for number in range(300)]
    waiting = list(entries)
    while waiting:
        room = (1 << POST_SIZE) - (queues.registers["post_produced"] - queues.reading("post_consumed") & 0xFFFF)
        count = min(queues.chance.randint(1, 12), room)
        queues.post(*waiting[:count])
        waiting = waiting[count:]
        await queues.cycles(queues.chance.randint(1, 60))
    await queues.until(lambda: queues.reading("post_consumed") == len(entries))
    posted = [unpack("work_request_t", packed) for (packed,) in queues.requests]
    received = [unpack("receive_request_t", packed) for (packed,) in queues.receives]
    expected = [entry for entry in entries if entry["operation"] != RECEIVE]
    assert [(post["id"], post["operation"], post["qp"]) for post in posted] == [
        (entry["id"], entry["operation"], entry["qp"]) for entry in expected
    ]
    assert [post["id"] for post in received] == [entry["id"] for entry in entries if entry["operation"] == RECEIVE]


@cocotb.test()
async def completions_wait_for_the_host(dut):
    queues = Queues(dut, 2)
    await queues.ready()
    count = 5 << COMPLETION_SIZE
    items = [{"_i": pack("completion_t", id=number, qp=number % 8, bytes=number)} for number in range(count)]
    sending = cocotb.start_soon(queues.send("completion", items, 0.8))
    await queues.until(lambda: queues.reading("completion_produced") == 1 << COMPLETION_SIZE)
    await queues.cycles(100)
    assert queues.reading("completion_produced") == 1 << COMPLETION_SIZE, "the next has no place"
    assert int(dut.interrupt_o.value) and not sending.done()
    seen = []
    while len(seen) < count:
        seen += queues.completed()
        await queues.cycles(queues.chance.randint(1, 30))
    await sending
    assert [entry["id"] for entry in seen] == list(range(count))
    assert not int(dut.interrupt_o.value)


@cocotb.test()
async def what_names_nothing_is_refused(dut):
    queues = Queues(dut, 3)
    await queues.ready()
    queues.post(request(0), request(1, operation=6), request(2), request(3, qp=constant("QueuePairs")), request(4))
    await queues.until(lambda: queues.reading("post_consumed") == 5 and queues.reading("completion_produced") == 2)
    assert [unpack("work_request_t", packed)["id"] for (packed,) in queues.requests] == [0, 2, 4]
    refused = constant("StatusLocalOperation")
    assert [(entry["id"], entry["status"]) for entry in queues.completed()] == [(1, refused), (3, refused)]


@cocotb.test()
async def more_than_the_ring_has_stops_the_fetching(dut):
    queues = Queues(dut, 4)
    await queues.ready()
    queues.set(post_produced=(1 << POST_SIZE) + 1)
    await queues.until(lambda: queues.reading("overrun"))
    await queues.cycles(200)
    assert queues.requests == [] and queues.memory.bursts["ar"] == 0


# The card accepts requests at once, rarely, or not until the error has occurred.
@cocotb.test()
@cocotb.parametrize(rate=[1.0, 0.1, 0.0])
async def nothing_is_posted_behind_an_error(dut, rate):
    queues = Queues(dut, 5)
    await queues.ready(rate=rate)
    faulty = 7
    queues.memory.faulty = {POSTS + ENTRY * faulty}
    queues.post(*map(request, range(20)))
    await queues.until(lambda: queues.reading("fault"))
    queues.rates["post"] = 1.0
    await queues.cycles(300)
    posted = [unpack("work_request_t", packed)["id"] for (packed,) in queues.requests]
    assert posted == list(range(queues.reading("post_consumed"))) and 1 <= len(posted) <= faulty, posted
    # Completions continue, and everything restarts when the queues are enabled again.
    await queues.send("completion", [{"_i": pack("completion_t", id=77)}])
    await queues.until(lambda: queues.reading("completion_produced") == 1)
    assert [entry["id"] for entry in queues.completed()] == [77]
    queues.memory.faulty = set()
    queues.set(enable=0)
    await queues.until(lambda: not queues.reading("running"))
    queues.set(enable=1, post_produced=0, completion_consumed=0)
    await queues.until(lambda: queues.reading("running") and not queues.reading("fault"))
    queues.requests.clear()
    queues.post(request(9))
    await queues.until(lambda: queues.requests)
    assert unpack("work_request_t", queues.requests[0][0])["id"] == 9


@cocotb.test()
async def a_write_that_fails_stops_posts(dut):
    queues = Queues(dut, 8)
    await queues.ready()
    queues.memory.faulty = {COMPLETIONS}
    await queues.send("completion", [{"_i": pack("completion_t", id=1)}])
    await queues.until(lambda: queues.reading("fault"))
    queues.post(request(0))
    await queues.cycles(200)
    assert queues.requests == [] and queues.reading("post_consumed") == 0


@cocotb.test()
async def latencies_are_those_of_the_header(dut):
    queues = Queues(dut, 9)
    await queues.ready(latency=(1, 1), ready=1)
    await queues.cycles(5)
    queues.post(request(1))
    # The registers change between two clock edges, so the next edge is the first that sees them.
    rung = queues.now + 1
    await queues.until(lambda: queues.requests)
    assert queues.first("ar_valid_o") - rung == DOORBELL_TO_ADDRESS
    assert queues.first("post_valid_o") - queues.first("r_valid_i") == DATA_TO_POST
    await queues.send("completion", [{"_i": pack("completion_t", id=1)}])
    await queues.until(lambda: queues.reading("completion_produced") == 1)
    assert queues.first("aw_valid_o") - queues.first("completion_valid_i") == COMPLETION_TO_ADDRESS


@cocotb.test()
async def an_entry_every_cycle(dut):
    queues = Queues(dut, 10)
    await queues.ready(latency=(1, 1), ready=1)
    queues.post(*map(request, range(1 << POST_SIZE)))
    await queues.until(lambda: len(queues.requests) == 1 << POST_SIZE)
    cycles = [now for what, now in queues.log if what == "post_valid_o"]
    assert cycles[-1] - cycles[0] == (1 << POST_SIZE) - 1


def test_work_queues():
    sources = ["weft_pkg.sv", "stream/fifo.sv", "stream/ram.sv", "stream/ram_fifo.sv", "memory/axi_bursts.sv",
               "memory/axi_reader.sv", "memory/axi_writer.sv", "nic/work_queues.sv"]
    bench.run("work_queues", sources, __file__)
