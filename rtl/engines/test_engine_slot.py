"""engine_slot: events of each source arrive in order with their payloads, timers fire once, messages reach their
destinations."""

import cocotb

import bench
from streams import Bench, beats, packets
from structs import constant, pack, unpack

TIMERS = 32


def payloads_of(chance, count):
    lengths = [0, 1, 40, 64, 65, 200]
    return [chance.randbytes(chance.choice(lengths)) for _ in range(count)]


def split(taken, lengths):
    """Assigns the payloads in a stream of beats to events of these lengths."""
    whole = packets(beat for (beat,) in taken)
    assert len(whole) == sum(length > 0 for length in lengths)
    following = iter(whole)
    return [next(following) if length else b"" for length in lengths]


@cocotb.test()
async def sources_in_order(dut):
    """Datagrams, calls of the host and over queue pairs, and completions under back-pressure, with configurations
    in between."""
    slot = Bench(dut, 1)
    await slot.start(clear=TIMERS, reset_i=0, configure_i=0, configuration_i=0)
    chance = slot.chance
    events = slot.take("event", ["_o"], rate=0.6)
    payload = slot.take("payload", ["_o"], rate=0.7)
    datagrams, calls, remote = payloads_of(chance, 120), payloads_of(chance, 60), payloads_of(chance, 90)
    kinds = [
        {
            "_i": pack(
                "message_received_t",
                last=index % 3 == 0,
                peer=index % 2,
                **{"from": index % 16},
                caller={"port": index},
                message=index % 7,
                bytes=len(data),
            )
        }
        for index, data in enumerate(datagrams)
    ]

    def called(caller, all_of):
        return [
            {
                "_i": pack(
                    "engine_event_t",
                    kind=constant("EventCall"),
                    last=1,
                    caller={"kind": constant(caller), "address": index},
                    message=1,
                    bytes=len(data),
                )
            }
            for index, data in enumerate(all_of)
        ]

    def stream(all_of):
        return [{"_i": beat} for data in all_of if data for beat in beats(data)]

    done = [{"_i": pack("completion_t", id=index, status=index % 5)} for index in range(40)]
    tasks = [
        cocotb.start_soon(slot.send("datagram", kinds, rate=0.5)),
        cocotb.start_soon(slot.send("datagram_payload", stream(datagrams), rate=0.8)),
        cocotb.start_soon(slot.send("call", called("CallerHost", calls), rate=0.3)),
        cocotb.start_soon(slot.send("queue_pair_call", called("CallerQueuePair", remote), rate=0.4)),
        cocotb.start_soon(slot.send("queue_pair_payload", stream(remote), rate=0.8)),
        cocotb.start_soon(slot.send("call_payload", stream(calls), rate=0.8)),
        cocotb.start_soon(slot.send("done", done, rate=0.2)),
    ]
    for round_ in range(6):
        await slot.cycles(40)
        dut.configuration_i.value = pack("engine_configuration_t", epoch=round_)
        dut.configure_i.value = 1
        await slot.cycles(1)
        dut.configure_i.value = 0
        dut.configuration_i.value = 0
    for task in tasks:
        await task
    await slot.idle()
    got = [unpack("engine_event_t", event) for (event,) in events]
    with_payload = [event for event in got if event["kind"] in (constant("EventCall"), constant("EventDeliver"))]
    texts = split(payload, [event["bytes"] for event in with_payload])

    def of(caller):
        both = zip(with_payload, texts)
        return [(event, text) for event, text in both if event["caller"]["kind"] == constant(caller)]

    for caller, all_of in (("CallerHost", calls), ("CallerQueuePair", remote)):
        assert [(event["caller"]["address"], text) for event, text in of(caller)] == list(enumerate(all_of))
    of_network = of("CallerEndpoint")
    assert [text for _, text in of_network] == datagrams
    for index, (event, _) in enumerate(of_network):
        assert event["kind"] == constant("EventDeliver" if index % 2 else "EventCall")
        assert (event["from"], event["caller"]["port"], event["message"]) == (index % 16, index, index % 7)
        assert event["last"] == (index % 3 == 0)
    ended = [(event["tag"], event["status"]) for event in got if event["kind"] == constant("EventDone")]
    assert ended == [(index, index % 5) for index in range(40)]
    configured = sum(event["kind"] == constant("EventConfigure") for event in got)
    assert 1 <= configured <= 6
    assert unpack("engine_configuration_t", dut.configuration_o.value)["epoch"] == 5
    assert slot.events["messages_delivered"] == 270


@cocotb.test()
async def callers_take_turns(dut):
    """No caller starves another, even one that calls constantly."""
    slot = Bench(dut, 4)
    await slot.start(clear=TIMERS, reset_i=0, configure_i=0, configuration_i=0)
    events = slot.take("event", ["_o"])
    datagram = {"_i": pack("message_received_t", message=1)}
    callers = {"call": "CallerHost", "queue_pair_call": "CallerQueuePair"}
    tasks = [cocotb.start_soon(slot.send("datagram", [datagram] * 60))]
    for prefix, caller in callers.items():
        call = {"_i": pack("engine_event_t", kind=constant("EventCall"), caller={"kind": constant(caller)})}
        tasks.append(cocotb.start_soon(slot.send(prefix, [call] * 60)))
    for task in tasks:
        await task
    await slot.idle()
    kinds = [unpack("engine_event_t", event)["caller"]["kind"] for (event,) in events]
    assert all(sorted(kinds[at : at + 3]) == [0, 1, 2] for at in range(3, 150, 3)), kinds


@cocotb.test()
async def timers_fire_once_and_in_time(dut):
    slot = Bench(dut, 2)
    await slot.start(clear=TIMERS, reset_i=0, configure_i=0, configuration_i=0)
    chance = slot.chance
    events = slot.take("event", ["_o"])
    slot.take("payload", ["_o"])

    async def set_timer(tag, at):
        dut.timer_valid_i.value = 1
        dut.timer_tag_i.value = tag
        dut.timer_at_i.value = at
        await slot.cycles(1)
        dut.timer_valid_i.value = 0

    for _ in range(20):
        events.clear()
        due = {tag: slot.now + chance.randrange(100, 400) for tag in chance.sample(range(TIMERS), 12)}
        for tag, at in due.items():
            await set_timer(tag, slot.now + 5_000)
            await set_timer(tag, at)
        await slot.cycles(TIMERS + 6)
        assert int(dut.armed_o.value)
        assert int(dut.earliest_valid_o.value)
        assert int(dut.earliest_o.value) == min(due.values())
        for _ in range(480):
            before = {unpack("engine_event_t", event)["tag"] for (event,) in events}
            late = [tag for tag, at in due.items() if tag not in before and at + 3 * TIMERS < slot.now]
            early = [tag for tag in before if due[tag] > slot.now]
            assert not late and not early
            await slot.cycles(1)
        assert sorted(unpack("engine_event_t", event)["tag"] for (event,) in events) == sorted(due)
        assert not int(dut.armed_o.value)
    # A reset disarms the timers.
    await set_timer(3, slot.now + 200)
    dut.reset_i.value = 1
    await slot.cycles(1)
    dut.reset_i.value = 0
    events.clear()
    await slot.cycles(400)
    assert [unpack("engine_event_t", event)["kind"] for (event,) in events] == [constant("EventReset")]
    assert not int(dut.busy_o.value)


@cocotb.test()
async def messages_find_their_way(dut):
    slot = Bench(dut, 3)
    await slot.start(clear=TIMERS, reset_i=0, configure_i=0, configuration_i=0)
    chance = slot.chance
    callers = [constant(name) for name in ("CallerEndpoint", "CallerHost", "CallerQueuePair")]
    ways = ("network", "host", "queue_pair")
    messages, wanted = [], {way: [] for way in ways}
    for index, body in enumerate(payloads_of(chance, 200)):
        reply, kind = chance.random() < 0.7, chance.choice(callers)
        way = ways[kind] if reply else "network"
        messages.append((body, pack("engine_message_t", reply=reply, caller={"kind": kind}, message=index, bytes=len(body))))
        wanted[way].append((index, body))
    seen, bodies = {}, {}
    for way in ways:
        seen[way], bodies[way] = [], []
        cocotb.start_soon(watch(slot, way, seen[way], bodies[way]))
    tasks = [
        cocotb.start_soon(slot.send("message", [{"_i": message} for _, message in messages], rate=0.8)),
        cocotb.start_soon(
            slot.send("body", [{"_i": beat} for body, _ in messages if body for beat in beats(body)], rate=0.9)
        ),
    ]
    for task in tasks:
        await task
    await slot.idle()
    for way in ways:
        numbers = [unpack("engine_message_t", message)["message"] for message in seen[way]]
        lengths = [unpack("engine_message_t", message)["bytes"] for message in seen[way]]
        assert list(zip(numbers, split([(beat,) for beat in bodies[way]], lengths))) == wanted[way], way


async def watch(slot, way, messages, bodies):
    """Receives messages and bodies of one path with random back-pressure."""
    dut = slot.dut
    valid, ready = getattr(dut, f"{way}_valid_o"), getattr(dut, f"{way}_ready_i")
    body_valid, body_ready = getattr(dut, f"{way}_body_valid_o"), getattr(dut, f"{way}_body_ready_i")
    while True:
        ready.value = slot.chance.random() < 0.7
        body_ready.value = slot.chance.random() < 0.8
        await cocotb.triggers.ReadOnly()
        if int(valid.value) and int(ready.value):
            messages.append(int(dut.message_o.value))
        if int(body_valid.value) and int(body_ready.value):
            bodies.append(int(dut.body_o.value))
        await cocotb.triggers.FallingEdge(dut.clk_i)


def test_engine_slot():
    sources = ["weft_pkg.sv", "engines/engines_pkg.sv", "stream/ram.sv", "rdma/timers.sv", "engines/engine_slot.sv"]
    bench.run("engine_slot", sources, __file__)
