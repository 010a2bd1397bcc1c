"""rate_control: unlimited queue pairs pass, limited ones send at their rate, and all of them recover."""

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge

import bench
from structs import constant

QUEUE_PAIRS = constant("QueuePairs")
LINE_RATE = 819_200
PERIOD = 13_750
BURST = 256
FRAMING = 82


def cut(notifications):
    """The rate after this many notifications in a row."""
    rate, alpha = LINE_RATE, 0xFFFF
    for _ in range(notifications):
        rate = max(819, rate - (rate * alpha >> 17))
        alpha = min(0xFFFF, alpha - (alpha >> 6) + 1_024)
    return rate


class Surroundings:
    """A scheduler whose queue pairs always have packets to send, and a requester of eight stages."""

    def __init__(self, dut):
        self.dut = dut
        self.now = 0
        self.line = []
        self.pipe = []
        # The packets sent by each queue pair, as (cycle, words).
        self.sent = {}
        self.words = 256

    async def start(self):
        dut = self.dut
        cocotb.start_soon(Clock(dut.clk_i, 4, unit="ns").start())
        dut.rst_ni.value = 0
        for name in ("turn_valid", "turn", "sent", "sent_qp", "sent_words", "notification", "notification_qp", "forget",
                     "forget_qp"):  # fmt: skip
            getattr(dut, f"{name}_i").value = 0
        dut.turn_ready_i.value = 1
        dut.activate_ready_i.value = 1
        dut.now_i.value = 0
        await FallingEdge(dut.clk_i)
        await FallingEdge(dut.clk_i)
        dut.rst_ni.value = 1
        while not int(dut.ready_o.value):
            await FallingEdge(dut.clk_i)

    def activate(self, qp):
        if qp not in self.line:
            self.line.append(qp)

    async def cycle(self, notify=None, forget=None):
        dut = self.dut
        self.now += 1
        dut.now_i.value = self.now
        dut.notification_i.value = int(notify is not None)
        dut.notification_qp_i.value = notify or 0
        dut.forget_i.value = int(forget is not None)
        dut.forget_qp_i.value = forget or 0
        turn = self.line[0] if self.line else None
        dut.turn_valid_i.value = int(turn is not None)
        dut.turn_i.value = turn or 0
        # The packet of a turn comes out eight cycles later, and then the queue pair requests its next turn.
        done = self.pipe.pop(0) if self.pipe and self.pipe[0][0] <= self.now else None
        dut.sent_i.value = int(done is not None)
        if done:
            dut.sent_qp_i.value = done[1]
            dut.sent_words_i.value = self.words
            self.sent.setdefault(done[1], []).append(self.now)
        await FallingEdge(dut.clk_i)
        if turn is not None and int(dut.turn_valid_o.value) and not int(dut.turn_blocked_o.value):
            self.pipe.append((self.now + 8, turn))
        if turn is not None and int(dut.turn_ready_o.value):
            self.line.pop(0)
        if done:
            self.activate(done[1])
        if int(dut.activate_valid_o.value):
            self.activate(int(dut.activate_o.value))

    async def run(self, cycles):
        for _ in range(cycles):
            await self.cycle()

    def bytes_since(self, qp, since):
        return sum(4 * self.words + FRAMING for at in self.sent.get(qp, []) if at > since)


@cocotb.test()
async def who_is_not_limited_passes_at_once(dut):
    s = Surroundings(dut)
    await s.start()
    for qp in range(8):
        s.activate(qp)
    await s.run(800)
    # A turn every cycle, except for the eight cycles that a queue pair spends in the pipeline.
    assert sum(len(sent) for sent in s.sent.values()) > 700
    assert not int(dut.armed_o.value)


@cocotb.test()
async def limited_queue_pairs_send_at_their_rates(dut):
    s = Surroundings(dut)
    await s.start()
    told = {5: 3, 6: 4, QUEUE_PAIRS - 1: 6}
    for qp in (*told, 1):
        s.activate(qp)
    for qp, times in told.items():
        for _ in range(times):
            await s.cycle(notify=qp)
            await s.run(60)
    begin = s.now
    await s.run(12_000)
    for qp, times in told.items():
        due = cut(times) * 12_000 * 4 / 65_536
        packet = 4 * s.words + FRAMING
        slack = 4 * packet + cut(times) * BURST * 4 / 65_536
        sent = s.bytes_since(qp, begin)
        assert abs(sent - due) <= slack, (qp, sent, due, slack)
    # The unlimited queue pair is not slowed down.
    assert len(s.sent[1]) > 900


@cocotb.test()
async def a_limited_queue_pair_recovers(dut):
    s = Surroundings(dut)
    await s.start()
    s.activate(2)
    await s.cycle(notify=2)
    await s.run(100)
    assert int(dut.armed_o.value)
    # A queue pair recovers from one notification in 19 periods; see the script `rate_limited` of the soft transport.
    for period in range(25):
        # During a round of the ring, no deadline is armed for a few cycles.
        armed = 0
        for _ in range(100):
            await s.cycle()
            armed += int(dut.armed_o.value)
        if not armed:
            break
        await s.run(PERIOD - 100)
    assert 4 <= period <= 20, period
    since = s.now
    await s.run(1_000)
    assert s.bytes_since(2, since) > 90 * (4 * s.words + FRAMING)


@cocotb.test()
async def a_change_of_state_ends_the_limit(dut):
    s = Surroundings(dut)
    await s.start()
    s.activate(4)
    for _ in range(8):
        await s.cycle(notify=4)
        await s.run(60)
    since = s.now
    await s.run(500)
    assert s.bytes_since(4, since) <= 4 * (4 * s.words + FRAMING)
    await s.cycle(forget=4)
    since = s.now
    await s.run(500)
    assert s.bytes_since(4, since) > 40 * (4 * s.words + FRAMING)


@cocotb.test()
async def the_clock_may_jump_to_the_earliest_deadline(dut):
    s = Surroundings(dut)
    await s.start()
    for _ in range(6):
        await s.cycle(notify=3)
        await s.run(60)
    s.activate(3)
    jumps = []
    for _ in range(4_000):
        await s.cycle()
        if int(dut.idle_o.value) and not s.line and not s.pipe and int(dut.earliest_valid_o.value):
            earliest = int(dut.earliest_o.value)
            assert s.now < earliest <= s.now + PERIOD, (s.now, earliest)
            jumps.append(earliest - s.now)
            s.now = earliest - 1
    # The rate is unchanged: one packet whenever one is due.
    assert len(jumps) > 50 and max(jumps) > 100
    due = cut(6) * s.now * 4 / 65_536
    sent = s.bytes_since(3, 0)
    assert 0.9 * due <= sent, (sent, due)


def test_rate_control():
    sources = ["weft_pkg.sv", "rdma/rate_pkg.sv", "stream/fifo.sv", "stream/ram.sv", "rdma/rate_machine.sv",
               "rdma/rate_control.sv"]  # fmt: skip
    bench.run("rate_control", sources, __file__)
