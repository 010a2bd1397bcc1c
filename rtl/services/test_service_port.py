"""service_port: settings by registers, payload that the card sends, and the state of a tap."""

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly

from bench import PORTS_ALONE, run
from pipelines import SOURCES, constant, pack
from streams import Bench
from structs import SERVICE_TYPES

KEY = 0x0123_4567_89AB_CDEF
THRESHOLD = 33
RECEIVE, TRANSMIT = 2 * 20, 2 * 21 + 1
unpack = SERVICE_TYPES.unpack


async def write(bench, register, data=0, wait=True):
    dut = bench.dut
    dut.registers_i.value = pack("service_registers_t", valid=1, index=constant(register), data=data)
    await FallingEdge(dut.clk_i)
    dut.registers_i.value = 0
    while wait and unpack("service_readings_t", dut.readings_o.value)["busy"]:
        await FallingEdge(dut.clk_i)


async def configure(bench, flow, map_name, tap_name, action_name="ActionNone", threshold=0):
    await write(bench, "ServiceFlow", flow)
    await write(bench, "ServiceKinds", constant(map_name) | constant(tap_name) << 4 | constant(action_name) << 8)
    await write(bench, "ServiceThreshold", threshold)
    await write(bench, "ServiceValueLow", KEY & 0xFFFF_FFFF)
    await write(bench, "ServiceValueHigh", KEY >> 32)
    await write(bench, "ServiceConfigure")


async def state(bench, flow):
    await write(bench, "ServiceFlow", flow)
    await write(bench, "ServiceRead")
    readings = unpack("service_readings_t", bench.dut.readings_o.value)
    assert readings["present"]
    return readings["state"]


async def start(dut):
    bench = Bench(dut, 1)
    await bench.start(registers_i=0)
    bench.serves = []
    bench.judgements = []

    async def watch():
        while True:
            await ReadOnly()
            if int(dut.serve_valid_o.value):
                bench.serves.append((int(dut.serve_qp_o.value), int(dut.serve_o.value)))
            if int(dut.judged_valid_o.value):
                bench.judgements.append(bool(int(dut.judged_marked_o.value)))
            await FallingEdge(dut.clk_i)

    cocotb.start_soon(watch())
    return bench


def beat(flow, data, last, strobe):
    return pack("service_beat_t", flow=flow, word=3, last=last, strobe=strobe, data=data)


@cocotb.test()
async def payload_is_changed_and_counted(dut):
    bench = await start(dut)
    # The first setting waits until all have been cleared after reset.
    await configure(bench, RECEIVE, "MapXor", "TapCount", "ActionMark", THRESHOLD)
    # No action, and no tap.
    await configure(bench, 2 * 7, "MapNone", "TapCount", "ActionNone", 0)
    await configure(bench, 2 * 8, "MapXor", "TapNone", "ActionMark", 0)
    taken = bench.take("served", ["_o"], rate=0.7)
    key = KEY * sum(1 << (64 * at) for at in range(8))
    sent, expected, counted, others = [], [], 0, 0
    marks, packet_bytes = [], 0
    for at in range(600):
        flow = bench.chance.choice((RECEIVE, 2 * 7, 2 * 8, 2 * 9))
        data, strobe = bench.chance.getrandbits(512), bench.chance.getrandbits(64)
        # Packets of one beat, back to back, and longer ones.
        last = at < 300 or at == 599 or bench.chance.random() < 0.3
        if sent and not sent[-1][1]:
            flow = sent[-1][2]
        sent.append((beat(flow, data, last, strobe), last, flow))
        expected.append((beat(flow, data ^ key if flow in (RECEIVE, 2 * 8) else data, last, strobe),))
        counted += strobe.bit_count() if flow == RECEIVE else 0
        others += strobe.bit_count() if flow == 2 * 7 else 0
        packet_bytes += strobe.bit_count()
        if last:
            marks.append(flow == RECEIVE and packet_bytes >= THRESHOLD)
            packet_bytes = 0
    await bench.send("service", [{"_i": packed} for packed, _, _ in sent])
    bench.rates["served"] = 1.0
    await bench.idle()
    assert taken == expected
    assert await state(bench, RECEIVE) == counted
    assert await state(bench, 2 * 7) == others
    assert await state(bench, 2 * 8) == 0
    assert bench.judgements == marks and 20 < sum(marks) < len(marks) - 20


@cocotb.test()
async def the_card_is_told_which_queue_pairs_have_services(dut):
    bench = await start(dut)
    await configure(bench, RECEIVE, "MapNone", "TapCount")
    await configure(bench, TRANSMIT, "MapXor", "TapNone")
    await configure(bench, 2 * 3, "MapXor", "TapNone")
    await configure(bench, RECEIVE, "MapNone", "TapNone")
    assert bench.serves == [(20, 1), (3, 1), (20, 0)]


@cocotb.test()
async def writes_are_ignored_while_a_command_is_executed(dut):
    bench = await start(dut)
    await configure(bench, RECEIVE, "MapNone", "TapCount")
    await write(bench, "ServiceConfigure", wait=False)
    await write(bench, "ServiceFlow", TRANSMIT)
    await write(bench, "ServiceConfigure")
    assert bench.serves == [(20, 1)] * 3


def test_service_port():
    services = [f"services/{name}.sv" for name in ("count_service", "xor_service", "services", "service_port")]
    sources = [*SOURCES, "stream/fifo.sv", *services]
    run("service_port", sources, __file__, parameters={"Preprocess": 0, "Inspect": 0}, arguments=PORTS_ALONE)
