"""congestion: the windows under the soft transport's two policies."""

import random

import cocotb
from cocotb.triggers import Timer

import bench

LIMIT = 16


class AdditiveIncrease:
    def __init__(self):
        self.window, self.acknowledged = LIMIT, 0

    def shrink(self, window):
        self.window, self.acknowledged = max(window, 1), 0

    def event(self, mark, packets, gap, time_out):
        if mark:
            self.shrink(self.window // 2)
        self.acknowledged += packets
        # One event lets the window grow by at most two steps; the rest counts with the next event.
        for _ in range(2):
            if self.acknowledged >= self.window:
                self.acknowledged -= self.window
                self.window = min(self.window + 1, LIMIT)
        if time_out:
            self.shrink(1)
        elif gap:
            self.shrink(self.window // 2)


@cocotb.test()
async def grows_by_one_a_window_and_shrinks_on_loss(dut):
    chance = random.Random(1)
    model = AdditiveIncrease()
    dut.window_i.value, dut.acknowledged_i.value = LIMIT, 0
    grown = 0
    for step in range(3_000):
        loss = chance.random() < 0.03
        # The requester has at most the previous window outstanding.
        event = dict(
            mark=int(chance.random() < 0.03),
            packets=chance.randrange(model.window + 1) if chance.random() < 0.9 else chance.randrange(LIMIT + 1),
            gap=int(loss and chance.random() < 0.7),
            time_out=int(loss and chance.random() < 0.3),
        )
        for name, value in event.items():
            getattr(dut, f"{name}_i").value = value
        await Timer(1, unit="ns")
        before = model.window
        model.event(**event)
        grown += model.window > before
        assert int(dut.window_o.value) == model.window, (step, event)
        assert int(dut.acknowledged_o.value) == model.acknowledged
        dut.window_i.value, dut.acknowledged_i.value = model.window, model.acknowledged
    assert grown > 100


def test_congestion():
    bench.run(
        "congestion", ["weft_pkg.sv", "rdma/congestion.sv"], __file__, {"AdditiveIncrease": 1, "Limit": LIMIT}
    )
