"""notification_point: a marked packet triggers a notification at once, but at most one in each interval and queue
pair."""

import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge

import bench
from structs import constant

QUEUE_PAIRS = constant("QueuePairs")
INTERVAL = 200


async def start(dut):
    cocotb.start_soon(Clock(dut.clk_i, 4, unit="ns").start())
    dut.rst_ni.value = 0
    for name in ("request", "response", "forget"):
        getattr(dut, f"{name}_i").value = 0
        getattr(dut, f"{name}_qp_i").value = 0
    dut.now_i.value = 0
    dut.notify_ready_i.value = 1
    await FallingEdge(dut.clk_i)
    await FallingEdge(dut.clk_i)
    dut.rst_ni.value = 1
    cycles = 0
    while not int(dut.ready_o.value):
        await FallingEdge(dut.clk_i)
        cycles += 1
        assert cycles <= QUEUE_PAIRS + 1


@cocotb.test()
async def tells_once_in_an_interval(dut):
    await start(dut)
    chance = random.Random(3)
    # For each queue pair: the cycle of the last notification, and of the first marked packet that must still trigger
    # one.
    told, owed, count = {}, {}, 0
    for now in range(10_000, 30_000):
        dut.now_i.value = now
        for name in ("request", "response"):
            marked = chance.random() < 0.08
            qp = chance.choice((0, 3, 7, QUEUE_PAIRS - 1))
            getattr(dut, f"{name}_i").value = int(marked)
            getattr(dut, f"{name}_qp_i").value = qp
            if marked and now >= told.get(qp, 0) + INTERVAL:
                owed.setdefault(qp, now)
        await FallingEdge(dut.clk_i)
        if int(dut.notify_valid_o.value):
            qp = int(dut.notify_o.value)
            # The block compares times when it processes a packet, a few cycles before the notification.
            assert now - told.get(qp, -INTERVAL) >= INTERVAL - 12, (now, qp)
            told[qp] = now
            owed.pop(qp, None)
            count += 1
        assert all(now - since < 24 for since in owed.values()), owed
    assert count > 300


@cocotb.test()
async def a_reset_forgets_and_what_is_not_taken_waits(dut):
    await start(dut)
    dut.notify_ready_i.value = 0

    async def pulse(name, qp):
        getattr(dut, f"{name}_i").value = 1
        getattr(dut, f"{name}_qp_i").value = qp
        await FallingEdge(dut.clk_i)
        getattr(dut, f"{name}_i").value = 0
        for _ in range(8):
            await FallingEdge(dut.clk_i)

    dut.now_i.value = 1_000
    await pulse("request", 9)
    await pulse("request", 9)
    await pulse("forget", 9)
    await pulse("response", 9)
    assert not int(dut.idle_o.value)
    dut.notify_ready_i.value = 1
    told = []
    for _ in range(8):
        if int(dut.notify_valid_o.value):
            told.append(int(dut.notify_o.value))
        await FallingEdge(dut.clk_i)
    assert told == [9, 9] and int(dut.idle_o.value)


def test_notification_point():
    sources = ["weft_pkg.sv", "stream/fifo.sv", "stream/ram.sv", "rdma/notification_point.sv"]
    bench.run("notification_point", sources, __file__, {"Interval": INTERVAL})
