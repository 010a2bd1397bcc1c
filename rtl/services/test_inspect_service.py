"""inspect_service: packets at any alignment with pauses between beats, against the definition in Python, with the tables of the model."""

import pathlib
import random
import tomllib

import cocotb
from cocotb.triggers import Timer

import bench
from pipelines import SOURCES, constant, pack, run, start

MODEL = tomllib.loads((pathlib.Path(__file__).parents[2] / "tools/inspection/model.toml").read_text())
BLOCKS = [f"services/inspect_{name}.sv" for name in ("table", "scores", "segments", "service")]
LANES = 64


def byte_score(packet, at):
    """The score of one byte, from the whole packet."""
    for distance in range(1, 17):
        if at >= distance + 2 and packet[at - 2:at + 1] == packet[at - 2 - distance:at + 1 - distance]:
            return MODEL["repeated"]
    byte = packet[at]
    total = MODEL["pairs"][MODEL["before"][packet[at - 1]] << 7 | MODEL["own"][byte]] if at else 0
    for distance in (2, 3, 4):
        if at >= distance:
            before = packet[at - distance]
            total += MODEL[f"skips_{distance}"][(before == byte) << 10 | MODEL["kind"][before] << 5 | MODEL["kind"][byte]]
    return total


def verdict(packet, offset):
    run_, best = 0, 0
    for at in range(len(packet)):
        run_ = max(run_ + byte_score(packet, at), 0)
        best = max(best, run_)
    return best | (offset == 0) << 30 | (best >= MODEL["threshold"]) << 31


def likely(chance, packet):
    """Of some bytes, the one that scores highest."""
    return max(chance.choices(range(256), k=5), key=lambda byte: byte_score(packet + bytes([byte]), len(packet)))


def payload(chance, length):
    kind, packet = chance.randrange(4), b""
    while len(packet) < length:
        if kind == 0 or not packet:
            packet += bytes([chance.getrandbits(8)])
        elif kind == 1:
            packet += packet[-chance.randrange(1, 20):][:chance.randrange(1, 9)]
        else:
            # Code between data.
            packet += bytes([likely(chance, packet) if len(packet) // 100 % 2 else chance.getrandbits(8)])
    return packet[:length]


def beats(packet, offset):
    for word in range(offset // LANES, -(-(offset + len(packet)) // LANES)):
        data, strobe = [0xA5] * LANES, 0
        for lane in range(LANES):
            if 0 <= word * LANES + lane - offset < len(packet):
                data[lane] = packet[word * LANES + lane - offset]
                strobe |= 1 << lane
        last = (word + 1) * LANES >= offset + len(packet)
        yield pack("service_beat_t", word=word, last=int(last), strobe=strobe, data=int.from_bytes(bytes(data), "little")), last


@cocotb.test()
async def every_packet_has_its_verdict_after_the_declared_cycles(dut):
    await start(dut)
    chance = random.Random(1)
    inputs, expected = [], {}
    for number in range(700):
        length = chance.choice([1, 2, 3, 4, 5, 63, 64, 65, 4_096]) if number % 20 == 0 else chance.randrange(1, 400)
        packet, offset = payload(chance, length), chance.choice([0, 64, chance.randrange(64), chance.getrandbits(40)])
        for beat, last in beats(packet, offset):
            while chance.random() < 0.2:
                inputs.append({"valid_i": 0, "beat_i": chance.getrandbits(600)})
            inputs.append({"valid_i": 1, "beat_i": beat})
        expected[len(inputs) - 1] = verdict(packet, offset), length, offset
    found = await run(dut, inputs, ["verdict_o"], constant("InspectLatency"))
    for cycle, (right, length, offset) in expected.items():
        assert found[cycle][0] == right, f"{length} bytes at offset {offset}: {found[cycle][0]:#x}, not {right:#x}"
    flagged = sum(right >> 31 for right, *_ in expected.values())
    assert 50 < flagged < 650, flagged


@cocotb.test()
async def the_state_counts_flagged_packets_and_has_the_highest_score_of_a_message(dut):
    await start(dut)
    chance = random.Random(2)
    state, flagged, highest = 0, 0, 0
    for _ in range(500):
        score, begins, is_flagged = chance.randrange(1 << 20), chance.getrandbits(2) == 0, chance.getrandbits(1)
        dut.state_i.value = state
        dut.accepted_i.value = score | begins << 30 | is_flagged << 31
        await Timer(1, "ns")
        state = int(dut.state_o.value)
        flagged, highest = flagged + is_flagged, score if begins else max(highest, score)
        assert (state >> 32, state & 0xFFFF_FFFF) == (flagged, highest)


def test_inspect_service():
    bench.run("inspect_service", [*SOURCES, *BLOCKS], __file__, arguments=bench.PORTS_ALONE)
