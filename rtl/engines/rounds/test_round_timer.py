"""round_timer: deadlines and trims against a model of crates/engines/rounds/src/timer.rs."""

import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly

import bench


@cocotb.test()
async def follows_the_model(dut):
    chance = random.Random(1)
    cocotb.start_soon(Clock(dut.clk_i, 4, unit="ns").start())
    for name in ("arm_i", "arm_at_i", "advance_i", "observe_i", "early_i", "late_i", "renew_i"):
        getattr(dut, name).value = 0
    period, one_way, now = 400, 300, 5_000
    dut.period_i.value, dut.one_way_i.value = period, one_way
    last = begin = deadline = trim = 0
    expired = trimmed = 0
    for step in range(20_000):
        await FallingEdge(dut.clk_i)
        now += chance.choice((1, 1, 1, 20))
        arm = step == 0 or chance.random() < 0.01
        advance = step > 0 and (arm and chance.random() < 0.5 or now >= deadline)
        observe = step > 0 and not (arm or advance) and chance.random() < 0.3
        early = chance.random() < 0.3
        late = not early and chance.random() < 0.3
        renew = step > 0 and not (arm or advance or observe) and chance.random() < 0.01
        if renew:
            period = chance.randrange(320, 480)
            dut.period_i.value = period
        at = now + chance.randrange(-50, 300)
        dut.now_i.value = now
        for name, value in dict(arm_i=arm, arm_at_i=at, advance_i=advance, observe_i=observe, early_i=early,
                                late_i=late, renew_i=renew).items():
            getattr(dut, name).value = int(value)
        await ReadOnly()
        if step:
            assert int(dut.deadline_o.value) == deadline
            assert int(dut.expired_o.value) == expired
            assert int(dut.trimmed_o.value) == int(advance and not arm and trim > 0)
            expected = (deadline if early else last if late else begin) + one_way
            assert dut.lag_o.value.to_signed() == now - expected
            assert int(dut.begin_o.value) == begin
            trimmed += int(dut.trimmed_o.value)
        expired = int(now >= deadline and not advance and not arm)
        if advance:
            base = at if arm else deadline
            last, begin, deadline = begin, base, base + period - (0 if arm else trim)
            trim = 0
        elif arm:
            deadline, trim = at, 0
        elif renew:
            trim = 0
        elif observe:
            lead = max(0, (deadline if early else begin) + one_way - now)
            trim = min(max(trim, lead // 4), period // 8)
    assert trimmed > 20


def test_round_timer():
    bench.run("round_timer", ["weft_pkg.sv", "engines/engines_pkg.sv", "engines/rounds/rounds_pkg.sv", "engines/rounds/round_timer.sv"], __file__)
