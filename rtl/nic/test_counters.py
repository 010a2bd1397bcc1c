"""counters: every pulse is counted exactly once under all conditions."""

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly

import bench
from streams import Bench

N = 85


class Counters(Bench):
    async def pulse(self, events):
        self.dut.events_i.value = events
        self.count = [value + (events >> index & 1) for index, value in enumerate(self.count)]
        await FallingEdge(self.dut.clk_i)
        self.dut.events_i.value = 0

    async def ready(self):
        await self.start(events_i=0)
        self.count = [0] * N

    async def read(self, index):
        await self.send("read", [{"_index_i": index}])
        for _ in range(N + 4):
            await ReadOnly()
            if int(self.dut.value_valid_o.value):
                value = int(self.dut.value_o.value)
                await FallingEdge(self.dut.clk_i)
                return value
            await FallingEdge(self.dut.clk_i)
        raise AssertionError("no value")


@cocotb.test()
async def counts_all_at_once(dut):
    counters = Counters(dut, 1)
    await counters.ready()
    assert await counters.read(3) == 0
    for _ in range(1_000):
        await counters.pulse((1 << N) - 1)
    assert [await counters.read(index) for index in range(N)] == [1_000] * N


@cocotb.test()
async def counts_from_the_first_cycle(dut):
    counters = Counters(dut, 2)
    await counters.ready()
    await counters.pulse((1 << N) - 1)
    assert [await counters.read(index) for index in range(N)] == [1] * N


@cocotb.test()
async def counts_at_random(dut):
    counters = Counters(dut, 3)
    await counters.ready()
    for _ in range(2_000):
        await counters.pulse(counters.chance.getrandbits(N) & counters.chance.getrandbits(N))
    assert [await counters.read(index) for index in range(N)] == counters.count


@cocotb.test()
async def a_value_read_under_load_is_between(dut):
    counters = Counters(dut, 4)
    await counters.ready()
    stop = []

    async def load():
        while not stop:
            await counters.pulse(counters.chance.getrandbits(N))

    task = cocotb.start_soon(load())
    for _ in range(60):
        index = counters.chance.randrange(N)
        before = counters.count[index]
        value = await counters.read(index)
        assert before - 1 <= value <= counters.count[index]
    stop.append(True)
    await task


def test_counters():
    bench.run("counters", ["weft_pkg.sv", "stream/ram.sv", "nic/counters.sv"], __file__, {"N": N})
