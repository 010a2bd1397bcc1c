"""host_calls: a call that the host writes word by word reaches the engine, and answers are read in the same way."""

import cocotb

import bench
from streams import Bench, beats, packets
from structs import constant, pack, unpack


async def write_call(calls, token, kind, data):
    dut = calls.dut
    for at in range(0, len(data), 4):
        dut.word_i.value = int.from_bytes(data[at : at + 4], "little")
        dut.word_valid_i.value = 1
        await calls.cycles(1)
        dut.word_valid_i.value = 0
        await calls.cycles(calls.chance.randrange(2))
    dut.token_i.value, dut.kind_i.value, dut.bytes_i.value = token, kind, len(data)
    dut.go_i.value = 1
    await calls.cycles(1)
    dut.go_i.value = 0


async def read_answer(calls):
    dut = calls.dut
    while not int(dut.answered_o.value):
        await calls.cycles(1)
    length, data = int(dut.answer_bytes_o.value), b""
    while len(data) < length:
        await calls.cycles(2)  # the rate at which registers are read
        data += int(dut.answer_word_o.value).to_bytes(4, "little")
        dut.answer_next_i.value = 1
        await calls.cycles(1)
        dut.answer_next_i.value = 0
    head = int(dut.answer_token_o.value), int(dut.answer_kind_o.value)
    dut.answer_done_i.value = 1
    await calls.cycles(1)
    dut.answer_done_i.value = 0
    return *head, data[:length]


async def start(dut, seed):
    calls = Bench(dut, seed)
    await calls.start(word_valid_i=0, go_i=0, answer_next_i=0, answer_done_i=0)
    return calls


@cocotb.test()
async def calls_of_any_length(dut):
    calls = await start(dut, 1)
    offered = calls.take("call", ["_o"], rate=0.4)
    payload = calls.take("call_payload", ["_o"], rate=0.6)
    lengths = [0, 1, 3, 4, 32, 40, 63, 64, 65, 127, 128, 129, 1000, 2047, 2048]
    texts = [calls.chance.randbytes(length) for length in lengths]
    for token, text in enumerate(texts):
        await write_call(calls, token, token + 100, text)
        while int(dut.busy_o.value):
            await calls.cycles(1)
    got = [unpack("engine_event_t", event) for (event,) in offered]
    assert [(event["caller"]["address"], event["message"], event["bytes"]) for event in got] == [
        (token, token + 100, len(text)) for token, text in enumerate(texts)
    ]
    host = constant("CallerHost"), constant("EventCall"), 1
    assert all((event["caller"]["kind"], event["kind"], event["last"]) == host for event in got)
    assert packets(beat for (beat,) in payload) == [text for text in texts if text]


@cocotb.test()
async def answers_wait_for_the_host(dut):
    calls = await start(dut, 2)
    texts = [calls.chance.randbytes(length) for length in (0, 40, 64, 65, 1064, 5)]
    messages = [
        {"_i": pack("engine_message_t", reply=1, caller={"address": token}, message=token + 7, bytes=len(text))}
        for token, text in enumerate(texts)
    ]
    cocotb.start_soon(calls.send("answer", messages))
    cocotb.start_soon(calls.send("answer_body", [{"_i": beat} for text in texts if text for beat in beats(text)], 0.7))
    for token, text in enumerate(texts):
        await calls.cycles(calls.chance.randrange(60))
        assert await read_answer(calls) == (token, token + 7, text)
    await calls.idle()


def test_host_calls():
    bench.run("host_calls", ["weft_pkg.sv", "engines/engines_pkg.sv", "stream/ram.sv", "engines/host_calls.sv"], __file__)
