"""kv_outgoing: messages of all requesters leave whole, in order, round-robin and without gaps."""

import collections

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly

import bench
from streams import Bench, beats, packets
from structs import constant, pack, unpack, width

STREAMS, COMMITTER, LOOKUPS, CONTROL = range(4)
REPLY, WRITE, ACKNOWLEDGE, COMMIT, SEALED = 2, 3, 4, 5, 6


def value_of(stream, place, length):
    return bytes((stream * 7 + place * 3 + at) % 255 + 1 for at in range(length))


class Windows:
    """Model of kv_window's read port: values in the order of requests, without gaps within a value."""

    def __init__(self, outgoing, lengths, chance):
        self.dut, self.lengths, self.chance = outgoing.dut, lengths, chance
        self.asked = collections.deque()
        cocotb.start_soon(self._run())

    async def _run(self):
        dut, wait, left = self.dut, 0, []
        while True:
            dut.value_read_ready_i.value = int(len(self.asked) < 2 and self.chance.random() < 0.8)
            if not left and self.asked and wait == 0:
                left = self.asked.popleft()
                wait = self.chance.choice((2, 2, 3, 9))
            wait = max(0, wait - 1)
            offers = bool(left) and (wait == 0)
            dut.value_beat_valid_i.value = int(offers)
            dut.value_beat_i.value = left[0] & (1 << 512) - 1 if offers else self.chance.getrandbits(512)
            await ReadOnly()
            if offers and int(dut.value_beat_ready_o.value):
                left = left[1:]
                wait = wait if left else 0
            if int(dut.value_read_valid_o.value) and int(dut.value_read_ready_i.value):
                key = int(dut.value_read_stream_o.value), int(dut.value_read_place_o.value)
                parts = beats(value_of(*key, self.lengths[key]))
                assert len(parts) == int(dut.value_read_beats_o.value)
                self.asked.append(parts)
            await FallingEdge(dut.clk_i)


def request(chance, who, lengths):
    """A random message of a requester: its struct, its attached beats, and the expected output."""
    header, value, source, place, stream = b"", b"", "ValueNone", 0, 0
    kind, to, caller = REPLY, 0, {"kind": 0, "mac": 0, "address": 0, "port": 0}
    length = chance.choice((1, 8, 9, 23, 24, 25, 63, 64, 65, 88, 128, 1000, 1024))
    if who == STREAMS:
        kind = chance.choice((REPLY, WRITE, WRITE, ACKNOWLEDGE, COMMIT))
        header = chance.randbytes({REPLY: 40, WRITE: 56, ACKNOWLEDGE: 24, COMMIT: 16}[kind])
        source = chance.choice(("ValueNone", "ValueWindow")) if kind in (REPLY, WRITE) else "ValueNone"
    elif who == COMMITTER:
        header, source = chance.randbytes(40), chance.choice(("ValueNone", "ValueWindow"))
    elif who == LOOKUPS:
        header, source = chance.randbytes(40), "ValueAttached"
        value = chance.randbytes(length) if chance.random() < 0.8 else b""
    else:
        kind, source = SEALED, "ValueAttached"
        value = chance.randbytes(chance.choice((16, 64, 144, 688, 1280)))
    if source == "ValueWindow":
        stream, place = chance.randrange(8), chance.randrange(256)
        if chance.random() < 0.9:
            value = value_of(stream, place, lengths.setdefault((stream, place), length))
    if kind == REPLY:
        caller = {"kind": chance.randrange(3), "mac": chance.getrandbits(48), "address": chance.getrandbits(32), "port": chance.getrandbits(16)}
    else:
        to = chance.getrandbits(16)
    fields = {"reply": int(kind == REPLY), "to": to, "caller": caller, "message": kind}
    packed = pack(
        "outgoing_t", **fields, header=int.from_bytes(header, "little"), header_bytes=len(header),
        source=constant(source), value_bytes=len(value), stream=stream, place=place,
    )
    attached = beats(value) if source == "ValueAttached" and value else []
    return packed, attached, ({**fields, "bytes": len(header + value)}, header + value)


async def drive(outgoing, all_requests, rates):
    """Drives the four requesters. An array port is set as one number in each cycle."""
    dut, chance = outgoing.dut, outgoing.chance
    size, beat = width("outgoing_t"), width("beat_t")
    waiting = [collections.deque(r) for r in all_requests]
    attached = [collections.deque() for _ in all_requests]
    offered = [None] * 4
    while any(waiting) or any(attached) or any(offered):
        for who in range(4):
            if offered[who] is None and waiting[who] and chance.random() < rates[who]:
                offered[who] = waiting[who].popleft()
                attached[who].extend(offered[who][1])
        valid = sum(1 << who for who in range(4) if offered[who])
        dut.request_valid_i.value = valid
        dut.request_i.value = sum(offered[who][0] << size * who for who in range(4) if offered[who])
        dut.attached_valid_i.value = sum(1 << who for who in range(4) if attached[who])
        junk = chance.getrandbits(beat * 4)
        dut.attached_i.value = sum(
            (attached[who][0] if attached[who] else junk >> beat * who & (1 << beat) - 1) << beat * who for who in range(4))
        await ReadOnly()
        ready, taken = int(dut.request_ready_o.value), int(dut.attached_ready_o.value)
        for who in range(4):
            if valid >> who & 1 and ready >> who & 1:
                offered[who] = None
            if attached[who] and taken >> who & 1:
                attached[who].popleft()
        await FallingEdge(dut.clk_i)
    dut.request_valid_i.value = 0
    dut.attached_valid_i.value = 0


async def no_pause(dut):
    """Checks that a payload has no gaps."""
    inside = False
    while True:
        await FallingEdge(dut.clk_i)
        await ReadOnly()
        valid = int(dut.body_valid_o.value)
        assert valid or not inside
        if valid and int(dut.body_ready_i.value):
            inside = not int(dut.body_o.value) >> 518


@cocotb.test(timeout_time=200, timeout_unit="us")
@cocotb.parametrize(
    (("rates", "message_rate", "body_rate"), [
        ((1, 1, 1, 1), 1, 1), ((0.2, 0.2, 0.2, 0.2), 0.5, 0.5), ((1, 0.3, 0.3, 0.1), 0.2, 1), ((1, 1, 1, 1), 1, 0.3),
        ((1, 0, 0, 0), 1, 1), ((0, 0, 1, 0), 1, 1),
    ])
)
async def any_messages(dut, rates, message_rate, body_rate):
    outgoing = Bench(dut, 1)
    await outgoing.start(request_valid_i=0, attached_valid_i=0)
    chance, lengths = outgoing.chance, {}
    requests = [[request(chance, who, lengths) for _ in range(120)] if rates[who] else [] for who in range(4)]
    Windows(outgoing, lengths, chance)
    messages = outgoing.take("message", ["_o"], message_rate)
    bodies = outgoing.take("body", ["_o"], body_rate)
    watch = cocotb.start_soon(no_pause(dut))
    await drive(outgoing, requests, rates)
    await outgoing.idle()
    watch.cancel()
    left = [collections.deque(expected for _, _, expected in one) for one in requests]
    got = list(zip((unpack("engine_message_t", message) for (message,) in messages),
                   packets(beat for (beat,) in bodies), strict=True))
    for message, body in got:
        owner = [one for one in left if one and one[0] == (message, body)]
        assert owner, f"{message} {body.hex()} was not asked for at this turn"
        owner[0].popleft()
    assert not any(left)
    # The bytes behind a payload's end are zero.
    for (beat,) in bodies:
        used = 64 - (beat >> 512 & 63)
        assert beat & (1 << 512) - 1 < 1 << 8 * used


@cocotb.test(timeout_time=200, timeout_unit="us")
async def one_cycle_without_a_value_and_one_message_a_cycle(dut):
    outgoing = Bench(dut, 1)
    await outgoing.start(request_valid_i=0, attached_valid_i=0)
    packed, _, _ = next(r for r in iter(lambda: request(outgoing.chance, STREAMS, {}), None) if len(r[2][1]) == 24)
    dut.message_ready_i.value = dut.body_ready_i.value = 1
    dut.request_i.value = packed
    dut.request_valid_i.value = 1
    times = []
    for cycle in range(10):
        await ReadOnly()
        if int(dut.message_valid_o.value):
            assert int(dut.body_valid_o.value)
            times.append(cycle)
        await FallingEdge(dut.clk_i)
    assert times == list(range(1, 10))


@cocotb.test(timeout_time=200, timeout_unit="us")
async def turns_are_fair(dut):
    outgoing = Bench(dut, 2)
    await outgoing.start(request_valid_i=0, attached_valid_i=0)
    messages = outgoing.take("message", ["_o"])
    outgoing.take("body", ["_o"])
    requests = []
    for who in range(2):
        fields = {"reply": 0, "to": who + 1, "message": COMMIT, "header_bytes": 16}
        requests.append([(pack("outgoing_t", **fields), [], None)] * 50)
    await drive(outgoing, [*requests, [], []], (1, 1, 0, 0))
    await outgoing.idle()
    order = [unpack("engine_message_t", message)["to"] for (message,) in messages]
    assert order[:90] in ([1, 2] * 45, [2, 1] * 45)


def test_kv_outgoing():
    bench.run(
        "kv_outgoing",
        ["weft_pkg.sv", "engines/engines_pkg.sv", "engines/kv/kv_pkg.sv", "engines/kv/kv_messages_pkg.sv",
         "stream/arbiter.sv", "engines/kv/kv_outgoing.sv"],
        __file__,
    )
