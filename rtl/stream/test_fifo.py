"""fifo: order, no loss, no duplication, at all rates of source and consumer."""

import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge, FallingEdge

import bench


@cocotb.test()
async def keeps_everything_in_order(dut):
    chance = random.Random(1)
    cocotb.start_soon(Clock(dut.clk_i, 4, unit="ns").start())
    dut.rst_ni.value = 0
    dut.in_valid_i.value = 0
    dut.out_ready_i.value = 0
    for _ in range(2):
        await FallingEdge(dut.clk_i)
    dut.rst_ni.value = 1
    put, taken = 0, 0
    while taken < 2_000:
        await FallingEdge(dut.clk_i)
        phase = taken // 500 % 3
        dut.in_valid_i.value = int(chance.random() < (0.9, 0.3, 1.0)[phase])
        dut.out_ready_i.value = int(chance.random() < (0.3, 0.9, 1.0)[phase])
        dut.in_i.value = put % 256
        await ReadOnly()
        accepted = int(dut.in_valid_i.value) and int(dut.in_ready_o.value)
        if int(dut.out_valid_o.value) and int(dut.out_ready_i.value):
            assert int(dut.out_o.value) == taken % 256
            taken += 1
        assert int(dut.level_o.value) <= 16
        await RisingEdge(dut.clk_i)
        put += bool(accepted)


def test_fifo():
    bench.run("fifo", ["stream/fifo.sv"], __file__)
