"""services: XOR and no map, with and without the preprocessing behind them. The suite of crates/service has the rest."""

import random

import cocotb
import pytest

from bench import PORTS_ALONE, run
from pipelines import OPERATORS, SOURCES, constant, pack
from streams import Bench

FLOWS = {name: number for number, name in enumerate(("MapNone", "MapXor", "MapPreprocess"), 20)}
INSPECTION = [f"inspect_{name}" for name in ("table", "scores", "segments", "service")]
KEY = 0x0123_4567_89AB_CDEF


async def start(dut):
    bench = Bench(dut, 1)
    await bench.start(clear=2 * 512)
    settings = [{"_flow_i": flow, "_i": pack("setting_t", map=constant(name), value=KEY), "_rule_i": 0} for name, flow in FLOWS.items()]
    await bench.send("configure", settings)
    return bench


def beats(chance, count):
    """Beats of the flows, and what they become. No pipeline is loaded."""
    made = []
    for _ in range(count):
        name, data = chance.choice(list(FLOWS)), chance.getrandbits(512)
        fields = {"flow": FLOWS[name], "word": chance.getrandbits(58), "last": chance.getrandbits(1), "strobe": chance.getrandbits(64)}
        key = KEY * sum(1 << (64 * at) for at in range(8))
        become = data ^ key if name == "MapXor" else data
        made.append((pack("service_beat_t", data=data, **fields), pack("service_beat_t", data=become, **fields)))
    return made


@cocotb.test()
async def a_beat_takes_the_declared_cycles(dut):
    bench = await start(dut)
    latency = constant("ServiceLatency") - (0 if int(dut.Preprocess.value) else constant("PreprocessLatency"))
    taken = bench.take("out", ["_o"])
    ((beat, become),) = beats(bench.chance, 1)
    await bench.send("in", [{"_i": beat}])
    await bench.cycles(latency - 1)
    assert not taken
    await bench.cycles(1)
    assert taken == [(become,)]


@cocotb.test()
async def no_beat_is_lost_behind_a_slow_consumer(dut):
    bench = await start(dut)
    taken = bench.take("out", ["_o"], rate=0.0)
    made = beats(bench.chance, 500)
    sending = cocotb.start_soon(bench.send("in", [{"_i": beat} for beat, _ in made]))
    await bench.cycles(200)
    bench.rates["out"] = 0.3
    await sending
    bench.rates["out"] = 1.0
    await bench.cycles(200)
    assert taken == [(become,) for _, become in made]


@pytest.mark.parametrize("preprocess", [0, 1])
def test_services(preprocess):
    services = [f"services/{name}.sv" for name in ("count_service", *INSPECTION, "preprocess_service", "xor_service", "services")]
    sources = [*SOURCES, "stream/fifo.sv", *OPERATORS, *services]
    run("services", sources, __file__, parameters={"Preprocess": preprocess}, arguments=PORTS_ALONE)
