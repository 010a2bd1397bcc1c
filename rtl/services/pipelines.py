"""Drives blocks that take an input every cycle, and packs what the preprocessing has in its tables."""

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge

from structs import SERVICE_TYPES

constant = SERVICE_TYPES.constants.__getitem__
pack = SERVICE_TYPES.pack

MISSING = -(1 << 31)
LARGEST = (1 << 31) - 1
# Values at which operators may be wrong.
EDGES = [MISSING, MISSING + 1, -2, -1, 0, 1, 2, 3, LARGEST - 1, LARGEST]
SOURCES = ["weft_pkg.sv", "services/generated/preprocess_log_pkg.sv", "services/preprocess_pkg.sv",
           "services/generated/inspect_tables_pkg.sv", "services/inspect_pkg.sv", "services/services_pkg.sv",
           "stream/delay.sv", "stream/ram.sv", "services/multiplier.sv"]
OPERATORS = [f"services/preprocess_{name}.sv" for name in ("limits", "hash", "remainder", "log", "bucketize", "columns", "lane")]


def unsigned(value, bits=32):
    return value & ((1 << bits) - 1)


def signed(value, bits=32):
    return value - (1 << bits) if value >> (bits - 1) else value


def values(chance, count):
    """Random int32, a fifth of them edges or their neighbours in size."""
    def one():
        kind = chance.randrange(5)
        if kind == 0:
            return chance.choice(EDGES)
        if kind == 1:
            return signed(chance.getrandbits(chance.randrange(1, 33)))
        return signed(chance.getrandbits(32))
    return [one() for _ in range(count)]


async def start(dut):
    for handle in dut:
        if handle._name.endswith("_valid_i"):
            handle.value = 0
    cocotb.start_soon(Clock(dut.clk_i, 4, unit="ns").start())
    if hasattr(dut, "rst_ni"):
        dut.rst_ni.value = 0
        for _ in range(3):
            await FallingEdge(dut.clk_i)
        dut.rst_ni.value = 1
    await FallingEdge(dut.clk_i)


async def run(dut, inputs, outputs, latency):
    """Gives the device one of `inputs`, {port: value}, each cycle. Returns the outputs that `latency` cycles later follow
    from each."""
    found = []
    for cycle in range(len(inputs) + latency):
        if cycle >= latency:
            found.append(tuple(int(getattr(dut, port).value) for port in outputs))
        # Behind the last input others follow, so a block that is late is not right by chance.
        for port, value in (inputs[cycle] if cycle < len(inputs) else inputs[cycle % len(inputs)]).items():
            getattr(dut, port).value = value
        await FallingEdge(dut.clk_i)
    return found


async def write(dut, table, address, data):
    dut.write_valid_i.value = 1
    dut.write_i.value = pack("preprocess_write_t", entries=constant(f"PreprocessTable{table}"), address=address, data=data)
    await FallingEdge(dut.clk_i)
    dut.write_valid_i.value = 0


def divisor(number):
    """The fields of a divisor; a pipeline that is not loaded has none."""
    return {"divisor": number, "reciprocal": ((1 << 64) - 1) // number, "bias": -(1 << 63) % number}


async def write_borders(dut, number, borders):
    for index in range(constant("PreprocessBorders")):
        border = borders[index] if index < len(borders) else LARGEST
        await write(dut, "Borders", number * constant("PreprocessBorders") + index, unsigned(border))
