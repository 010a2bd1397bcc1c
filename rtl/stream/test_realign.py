"""realign: bytes move to the commanded offset, at full rate, at all rates of source and consumer."""

import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly

import bench


class Run:
    """One command, its raw input beats, and the expected output beats."""

    def __init__(self, chance, start, to, count):
        self.command = (start, to, count)
        content = chance.randbytes(count)
        end = start + count
        raw = chance.randbytes(start) + content + chance.randbytes(-end % 64)
        self.inputs = [int.from_bytes(raw[at : at + 64], "little") for at in range(0, len(raw), 64)]
        strobe = (1 << count) - 1 << to
        data = int.from_bytes(content, "little") << 8 * to
        beats = (to + count + 63) // 64
        self.outputs = [
            (data >> 512 * k & (1 << 512) - 1, strobe >> 64 * k & (1 << 64) - 1, int(k == beats - 1))
            for k in range(beats)
        ]
        self.cycles = max(len(self.inputs), beats)


async def drive(dut, runs, command_rate=1.0, input_rate=1.0, output_rate=1.0, chance=None):
    """Drives the runs through the block. Returns the cycles of input and of output beats."""
    chance = chance or random.Random(0)
    commands = [run.command for run in runs]
    inputs = [beat for run in runs for beat in run.inputs]
    outputs = [beat for run in runs for beat in run.outputs]
    command, entered, left = 0, [], []
    offered_command = offered_input = False
    waiting = None
    cycle = 0
    while len(left) < len(outputs) or len(entered) < len(inputs):
        await FallingEdge(dut.clk_i)
        # A source holds an offer until it is accepted.
        offered_command = command < len(commands) and (offered_command or chance.random() < command_rate)
        offered_input = len(entered) < len(inputs) and (offered_input or chance.random() < input_rate)
        dut.command_valid_i.value = int(offered_command)
        if offered_command:
            dut.from_i.value, dut.to_i.value, dut.bytes_i.value = commands[command]
        dut.in_valid_i.value = int(offered_input)
        if offered_input:
            dut.in_data_i.value = inputs[len(entered)]
        dut.out_ready_i.value = int(chance.random() < output_rate)
        await ReadOnly()
        if offered_command and int(dut.command_ready_o.value):
            command, offered_command = command + 1, False
        if offered_input and int(dut.in_ready_o.value):
            entered.append(cycle)
            offered_input = False
        if int(dut.out_valid_o.value):
            seen = (int(dut.out_data_o.value), int(dut.out_strobe_o.value), int(dut.out_last_o.value))
            assert left is not None and len(left) < len(outputs), "a beat too many"
            assert seen == outputs[len(left)], f"beat {len(left)}"
            waiting = seen
            if int(dut.out_ready_i.value):
                left.append(cycle)
                waiting = None
        else:
            assert waiting is None, "valid was withdrawn"
        cycle += 1
        assert cycle < 200_000
    return entered, left


async def start(dut):
    cocotb.start_soon(Clock(dut.clk_i, 4, unit="ns").start())
    dut.rst_ni.value = 0
    dut.command_valid_i.value = 0
    dut.in_valid_i.value = 0
    dut.out_ready_i.value = 0
    for _ in range(2):
        await FallingEdge(dut.clk_i)
    dut.rst_ni.value = 1


@cocotb.test()
async def every_pair_of_offsets_at_full_rate(dut):
    await start(dut)
    chance = random.Random(1)
    runs = []
    for first in range(64):
        for to in range(64):
            # Short runs, and runs that end at, just before or just behind the border of a beat.
            border = chance.choice((64, 128)) - chance.choice((first, to)) + chance.randint(-1, 1)
            runs.append(Run(chance, first, to, chance.choice((max(1, border), chance.randint(1, 130)))))
    chance.shuffle(runs)
    entered, left = await drive(dut, runs)
    total = sum(run.cycles for run in runs)
    # One cycle for the first command, and the latency; there is no gap between runs.
    assert left[-1] - left[0] + 1 <= total, f"{left[-1] - left[0] + 1} cycles for {total}"
    assert left[-1] - entered[0] <= total + 3


@cocotb.test()
async def long_runs_and_sizes(dut):
    await start(dut)
    chance = random.Random(2)
    sizes = [1, 2, 63, 64, 65, 127, 128, 129, 4_095, 4_096, 8_191]
    runs = [Run(chance, chance.randrange(64), chance.randrange(64), size) for size in sizes * 4]
    entered, left = await drive(dut, runs)
    total = sum(run.cycles for run in runs)
    assert left[-1] - left[0] + 1 <= total


@cocotb.test()
async def a_single_beat_takes_three_cycles(dut):
    await start(dut)
    chance = random.Random(3)
    for first, to in ((0, 0), (5, 9), (9, 5)):
        entered, left = await drive(dut, [Run(chance, first, to, 40)])
        assert (entered[0], left[0]) == (1, 4)


@cocotb.test()
async def random_waits_everywhere(dut):
    await start(dut)
    chance = random.Random(4)
    for rates in ((0.3, 1, 1), (1, 0.3, 1), (1, 1, 0.3), (0.7, 0.7, 0.7), (0.9, 0.5, 0.9)):
        runs = [
            Run(chance, chance.randrange(64), chance.randrange(64), chance.choice((1, 40, 64, 100, 300)) + chance.randrange(9))
            for _ in range(300)
        ]
        await drive(dut, runs, *rates, chance=chance)


def test_realign():
    bench.run("realign", ["weft_pkg.sv", "stream/realign.sv"], __file__)
