"""rate_machine: equals the soft transport's rate machine bit by bit, event by event."""

import pathlib

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge

import bench
from structs import RTL, Package

PACKAGE = Package((RTL / "weft_pkg.sv", RTL / "rdma/rate_pkg.sv"))
VECTORS = pathlib.Path(__file__).parent / "vectors/rate_machine.txt"
LINE_RATE = 819_200


@cocotb.test()
async def every_event_of_the_vectors(dut):
    cocotb.start_soon(Clock(dut.clk_i, 2, unit="ns").start())
    dut.rst_ni.value = 0
    dut.start_i.value = 0
    await FallingEdge(dut.clk_i)
    await FallingEdge(dut.clk_i)
    dut.rst_ni.value = 1
    events = {"notification": "RateNotification", "period": "RatePeriod", "bytes": "RateBytes"}
    fresh = dict(current=LINE_RATE, target=5, alpha=3, timer_steps=1, byte_steps=2, bytes=77)
    state, byte_time, seen, changed = dict(fresh), 0, set(), 0
    for line in VECTORS.read_text().splitlines()[1:]:
        word, *numbers = line.split()
        numbers = [int(number) for number in numbers]
        if word == "fresh":
            state = dict(fresh)
            continue
        if word == "set":
            state["bytes"] = numbers[0]
            continue
        sent, *expected, expected_time = numbers
        # At the line rate the other fields are ignored.
        if state["current"] == LINE_RATE:
            state = dict(fresh)
        dut.event_i.value = PACKAGE.constants[events[word]]
        dut.bytes_i.value = sent
        dut.state_i.value = PACKAGE.pack("rate_state_t", **state)
        dut.byte_time_i.value = byte_time
        dut.start_i.value = 1
        await FallingEdge(dut.clk_i)
        dut.start_i.value = 0
        for _ in range(64):
            if int(dut.done_o.value):
                break
            await FallingEdge(dut.clk_i)
        else:
            raise AssertionError(f"{line}: not done")
        result = PACKAGE.unpack("rate_state_t", int(dut.state_o.value))
        names = ["current", "target", "alpha", "timer_steps", "byte_steps", "bytes"]
        wanted = dict(zip(names, expected, strict=True))
        if wanted["current"] == LINE_RATE:
            assert result["current"] == LINE_RATE, line
        else:
            assert {name: result[name] for name in names} == wanted, line
            assert int(dut.byte_time_o.value) == expected_time, line
        changed += result["current"] != state["current"]
        seen.add((word, wanted["timer_steps"] == 15, wanted["byte_steps"] > 5, wanted["current"] == LINE_RATE))
        state, byte_time = result, int(dut.byte_time_o.value)
        await FallingEdge(dut.clk_i)
    assert changed > 500 and len(seen) >= 6, (changed, seen)


def test_rate_machine():
    bench.run("rate_machine", ["weft_pkg.sv", "rdma/rate_pkg.sv", "rdma/rate_machine.sv"], __file__)
