"""preprocess_service: whole beats of several pipelines, against numpy, Python and the C library's logarithm."""

import random
import struct

import cocotb
import numpy

import bench
from pipelines import (
    EDGES, LARGEST, MISSING, OPERATORS, SOURCES, constant, divisor, pack, run, signed, start, unsigned, values, write, write_borders,
)
from test_preprocess_hash import combined, mixed

LANES = 16


class Column:
    """Limits and an operator with its parameters, at random."""

    def __init__(self, chance, sets):
        self.missing = chance.choice([MISSING, 0, *values(chance, 1)])
        self.low, self.high = sorted(values(chance, 2)) if chance.randrange(3) else (MISSING, LARGEST)
        self.operator = chance.choice(["None", "Log", "Modulus", "Bucketize", "SigridHash"])
        self.modulus = chance.randrange(1, 1 + (1 << chance.randrange(1, 32)))
        self.operand = {
            "Log": chance.getrandbits(chance.randrange(32)),
            "Bucketize": chance.randrange(len(sets)),
            "SigridHash": chance.getrandbits(64),
        }.get(self.operator, chance.getrandbits(64))
        self.borders = sets[self.operand] if self.operator == "Bucketize" else None

    def feature(self, value):
        value = self.missing if value == MISSING else int(numpy.clip(value, self.low, self.high))
        if self.operator == "Log":
            result = numpy.log(numpy.float64(max(value + self.operand, 1))).astype(numpy.float32)
            return struct.unpack("<I", struct.pack("<f", result))[0]
        if self.operator == "Modulus":
            value = int(numpy.remainder(numpy.int64(value), self.modulus))
        elif self.operator == "Bucketize":
            value = int(numpy.searchsorted(self.borders, value, side="left"))
        elif self.operator == "SigridHash":
            value = signed(combined(self.operand, mixed(unsigned(value, 64))), 64) % self.modulus
        return unsigned(value)

    async def load(self, dut, index):
        column = pack(
            "preprocess_column_t", missing=unsigned(self.missing), low=unsigned(self.low), high=unsigned(self.high),
            operation=constant(f"Preprocess{self.operator}"), operand=self.operand,
        )
        await write(dut, "Columns", index, column)
        await write(dut, "Divisors", index, pack("preprocess_divisor_t", **divisor(self.modulus)))


async def load(dut, chance):
    """Fills all tables. Returns the columns of each pipeline."""
    sets = []
    for number in range(constant("PreprocessBorderSets")):
        sets.append(sorted(set(values(chance, chance.randrange(1, 65)))))
        await write_borders(dut, number, sets[-1])
    rows, free = {}, 0
    for number, length in enumerate([40, 48, 1, 2, 3, 7, 15, 16, 17, 31, 33, 256]):
        rows[number] = [Column(chance, sets) for _ in range(length)]
        await write(dut, "Pipelines", number, pack("preprocess_pipeline_t", first=free, columns=divisor(length)))
        for column in rows[number]:
            await column.load(dut, free)
            free += 1
    return rows


def beat(chance, rows):
    """A beat, and what it becomes."""
    apply, number, word = chance.random() < 0.9, chance.randrange(16), chance.choice([chance.getrandbits(6), chance.getrandbits(58)])
    # A part of a packet: contiguous bytes.
    first, end = chance.choice([(0, 64), (0, 64), tuple(sorted(chance.sample(range(65), 2)))])
    raw = values(chance, LANES)
    if number in rows:
        for lane in range(LANES):
            column = rows[number][(16 * word + lane) % len(rows[number])]
            near = [column.low, column.high, *(column.borders or [])]
            if chance.random() < 0.3:
                raw[lane] = min(max(chance.choice(near) + chance.randrange(-1, 2), MISSING), LARGEST)
    expected = []
    for lane, value in enumerate(raw):
        whole = first <= 4 * lane and 4 * lane + 4 <= end
        converted = apply and number in rows and whole
        expected.append(rows[number][(16 * word + lane) % len(rows[number])].feature(value) if converted else unsigned(value))
    words = lambda numbers: int.from_bytes(b"".join(unsigned(number).to_bytes(4, "little") for number in numbers), "little")  # noqa: E731
    fields = {"flow": chance.getrandbits(10), "word": word, "last": chance.getrandbits(1), "strobe": ((1 << end) - 1) ^ ((1 << first) - 1)}
    valid = int(chance.random() < 0.9)
    inputs = {"valid_i": valid, "apply_i": int(apply), "pipeline_i": number, "beat_i": pack("service_beat_t", data=words(raw), **fields)}
    return inputs, (valid, pack("service_beat_t", data=words(expected), **fields))


@cocotb.test()
async def beats_of_many_pipelines_in_turn(dut):
    await start(dut)
    chance = random.Random(1)
    rows = await load(dut, chance)
    cases = [beat(chance, rows) for _ in range(3_000)]
    found = await run(dut, [inputs for inputs, _ in cases], ["valid_o", "beat_o"], constant("PreprocessLatency"))
    for number, ((inputs, expected), result) in enumerate(zip(cases, found, strict=True)):
        different = [lane for lane in range(LANES) if (result[1] ^ expected[1]) >> (32 * lane) & 0xFFFF_FFFF]
        assert result == expected, f"beat {number}, lanes {different}: {inputs}"


@cocotb.test()
async def every_edge_in_every_lane(dut):
    await start(dut)
    chance = random.Random(2)
    rows = await load(dut, chance)
    cases = []
    for number, columns in rows.items():
        for value in EDGES:
            data = sum(unsigned(value) << (32 * lane) for lane in range(LANES))
            for word in range(min(len(columns), 20)):
                expected = sum(columns[(16 * word + lane) % len(columns)].feature(value) << (32 * lane) for lane in range(LANES))
                beat = {"word": word, "strobe": (1 << 64) - 1}
                inputs = {"valid_i": 1, "apply_i": 1, "pipeline_i": number, "beat_i": pack("service_beat_t", data=data, **beat)}
                cases.append((inputs, pack("service_beat_t", data=expected, **beat)))
    found = await run(dut, [inputs for inputs, _ in cases], ["beat_o"], constant("PreprocessLatency"))
    for (inputs, expected), (beat,) in zip(cases, found, strict=True):
        assert beat == expected, inputs


def test_preprocess_service():
    bench.run("preprocess_service", [*SOURCES, *OPERATORS, "services/preprocess_service.sv"], __file__, arguments=bench.PORTS_ALONE)
