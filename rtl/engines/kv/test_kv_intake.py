"""kv_intake: every message becomes the operation that crates/engines/kv/src/message.rs parses, or is refused as
there."""

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly

import bench
from streams import Bench, beats, packets
from structs import constant, pack, unpack

MASK = 0x3FF
WORD = (1 << 64) - 1
CONSTANTS = (0x243F6A8885A308D3, 0x13198A2E03707344, 0xA4093822299F31D0, 0x082EFA98EC4E6C89)
ROTATIONS = ((2, 24, 27, 11), (60, 10, 17, 5), (22, 20, 53, 39), (38, 1, 39, 44))
REQUEST, REPLY, WRITE, ACKNOWLEDGE, COMMIT, SEALED, STATE_REQUEST, STATE_CHUNK = range(1, 9)
GET, PUT, DELETE, COMPARE_AND_SET = range(1, 5)


def mix(x):
    def rotate(word, by):
        return (word << by | word >> (64 - by)) & WORD

    for salt, (a, b, d, e) in zip(CONSTANTS, ROTATIONS, strict=True):
        x ^= salt
        x ^= rotate(x, a) ^ rotate(x, b)
        x ^= rotate(x, d) & ~rotate(x, e)
    return x


def place(key):
    whole = mix(key)
    return {"bucket": whole & MASK, "way": whole >> 32 & 31, "tag": whole >> 53 or 1}


def big(data, at, length):
    return int.from_bytes(data[at : at + length], "big")


def parse(event, data):
    """The fields of the expected operation that must match, and the value that follows it."""
    fields = {"last": event["last"] if event["kind"] in ("EventCall", "EventDeliver") else 1}
    malformed = {**fields, "kind": "OpMalformed"}, b""
    if event["kind"] == "EventCall":
        if event["message"] != REQUEST:
            return malformed
        identity = {"caller": event["caller"], "client": big(data, 8, 8), "request": big(data, 16, 8)}
        refused = {**fields, "kind": "OpBadRequest", "identified": int(len(data) >= 32)}
        if len(data) >= 32:
            refused["asker"] = identity
        length = big(data, 2, 2)
        if len(data) != 40 + length or len(data) < 40 or length > 1024:
            return refused, b""
        operation, expected = data[0], big(data, 24, 8)
        good = GET <= operation <= COMPARE_AND_SET and not data[1] and not big(data, 4, 4)
        good = good and identity["request"] and (length != 0) == (operation in (PUT, COMPARE_AND_SET))
        if not good or (expected and operation != COMPARE_AND_SET):
            return refused, b""
        key = big(data, 32, 8)
        return {
            **fields, "kind": "OpRequest", "asker": identity, "operation": operation, "version": expected, "key": key,
            "place": place(key), "value_bytes": length,
        }, data[40:]
    if event["kind"] != "EventDeliver":
        kind = {"EventTimer": "OpTimer", "EventDone": "OpNothing"}.get(event["kind"], event["kind"].replace("Event", "Op"))
        return {**fields, "kind": kind} | ({"timer": event["tag"] & 31} if kind == "OpTimer" else {}), b""
    fields["from"] = event["from"]
    malformed[0]["from"] = event["from"]
    message = event["message"]
    if len(data) >= 4:
        fields["epoch"] = big(data, 0, 4)
    if message == WRITE:
        length = big(data, 6, 2)
        if len(data) != 56 + length or len(data) < 56:
            return malformed
        operation, status, key = data[4], data[5], big(data, 48, 8)
        number, committed, request = big(data, 8, 8), big(data, 16, 8), big(data, 32, 8)
        good = PUT <= operation <= COMPARE_AND_SET and status <= 3 and number and request and length <= 1024
        good = good and (length != 0) == (status == 0 and operation != DELETE)
        if not good or max(number, committed) >> 40:
            return malformed
        asker = {"client": big(data, 24, 8), "request": request}
        return {
            **fields, "kind": "OpWrite", "operation": operation, "status": status, "number": number,
            "committed": committed, "asker": asker, "version": big(data, 40, 8), "key": key, "place": place(key),
            "value_bytes": length,
        }, data[56:]
    if message == ACKNOWLEDGE and len(data) == 24:
        accepted, committed = big(data, 8, 8), big(data, 16, 8)
        if data[4] <= 3 and committed <= accepted < 1 << 40:
            return {
                **fields, "kind": "OpAcknowledge", "accepted": accepted, "committed": committed, "gap": data[4] & 1,
                "asks": data[4] >> 1,
            }, b""
    if message == COMMIT and len(data) == 16 and not big(data, 8, 8) >> 40:
        return {**fields, "kind": "OpCommit", "committed": big(data, 8, 8)}, b""
    if message == STATE_REQUEST and len(data) == 16 and data[8] <= 1:
        return {
            **fields, "kind": "OpStateRequest", "attempt": big(data, 4, 4), "sessions": data[8],
            "position": big(data, 12, 4),
        }, b""
    if message in (SEALED, STATE_CHUNK) and data:
        return {**fields, "kind": "OpSealed" if message == SEALED else "OpStateChunk"}, data
    return malformed


def compose(chance, kind):
    """A message of this kind, mostly valid."""
    number = lambda bits: chance.getrandbits(chance.choice((1, 8, bits)))  # noqa: E731
    length = chance.choice((0, 1, 7, 8, 9, 23, 24, 25, 64, 65, 88, chance.randrange(1025), 1024, 1025))
    value = chance.randbytes(length)
    word = lambda value: value.to_bytes(8, "big")  # noqa: E731
    if kind == REQUEST:
        operation = chance.choice((GET, PUT, PUT, DELETE, COMPARE_AND_SET, 0, 5, 255))
        if operation not in (PUT, COMPARE_AND_SET) and chance.random() < 0.8:
            value = b""
        expected = number(64) if operation == COMPARE_AND_SET or chance.random() < 0.1 else 0
        head = bytes([operation, 0]) + len(value).to_bytes(2, "big") + bytes(4)
        return head + b"".join(map(word, (number(64), number(64), expected, number(64)))) + value
    if kind == WRITE:
        operation, status = chance.choice((PUT, PUT, DELETE, COMPARE_AND_SET, GET, 0, 9)), chance.choice((0, 0, 1, 2, 3, 4, 16))
        if (status or operation == DELETE) and chance.random() < 0.8:
            value = b""
        head = chance.randbytes(4) + bytes([operation, status]) + len(value).to_bytes(2, "big")
        return head + b"".join(map(word, (number(40), number(40), number(64), number(64), number(64), number(64)))) + value
    if kind == ACKNOWLEDGE:
        pair = sorted((number(40), number(40)), reverse=chance.random() < 0.9)
        return chance.randbytes(4) + bytes([chance.randrange(5)]) + chance.randbytes(3) + b"".join(map(word, pair))
    if kind == COMMIT:
        return chance.randbytes(8) + word(number(chance.choice((40, 41))))
    if kind == STATE_REQUEST:
        return chance.randbytes(8) + bytes([chance.choice((0, 1, 2, 128))]) + chance.randbytes(7)
    return chance.randbytes(chance.choice((0, 1, 32, 63, 64, 65, 144, 280, 688, 1280)))


def spoil(chance, data):
    """Sometimes changes the message: another length, or another bit or byte in the header."""
    if chance.random() < 0.1:
        return data[: chance.randrange(len(data) + 1)]
    if chance.random() < 0.1:
        return data + chance.randbytes(chance.choice((1, 8, 64)))
    if data and chance.random() < 0.2:
        at = chance.randrange(min(len(data), 56))
        changed = data[at] ^ (1 << chance.randrange(8))
        return data[:at] + bytes([changed]) + data[at + 1 :]
    return data


def caller(chance):
    return {"kind": chance.randrange(3), "mac": chance.getrandbits(48), "address": chance.getrandbits(32), "port": chance.getrandbits(16)}


def pick(chance):
    kind = chance.choices(
        ("EventDeliver", "EventCall", "EventTimer", "EventConfigure", "EventReset", "EventDone"), (12, 8, 1, 1, 1, 1))[0]
    event = {"kind": kind, "last": chance.randrange(2), "from": chance.randrange(16), "caller": caller(chance), "message": 0,
             "tag": chance.getrandbits(64)}
    data = b""
    if kind == "EventCall":
        event["message"] = chance.choices((REQUEST, WRITE, 0, 255), (20, 1, 1, 1))[0]
        data = spoil(chance, compose(chance, REQUEST))
    elif kind == "EventDeliver":
        event["message"] = chance.choice((WRITE, WRITE, WRITE, ACKNOWLEDGE, COMMIT, SEALED, STATE_REQUEST, STATE_CHUNK, REQUEST, REPLY, 0, 9))
        data = spoil(chance, compose(chance, event["message"]))
    event["bytes"] = len(data)
    return event, data


def packed(event):
    return pack("engine_event_t", **{**event, "kind": constant(event["kind"])})


def compare(expected, op, where):
    for name, value in expected.items():
        if name == "kind" and isinstance(value, str):
            value = constant(value)
        if isinstance(value, dict):
            compare(value, op[name], f"{where} {name}")
        else:
            assert op[name] == value, f"{where} {name}: {op[name]:#x}, expected {value:#x}"


async def run(dut, seed, pairs, rates):
    intake = Bench(dut, seed)
    await intake.start(bucket_mask_i=MASK)
    ops = intake.take("op", ["_o"], rates[2])
    values = intake.take("value", ["_o"], rates[3])
    cocotb.start_soon(intake.send("payload", [{"_i": beat} for _, data in pairs if data for beat in beats(data, intake.chance)], rates[1]))
    await intake.send("event", [{"_i": packed(event)} for event, _ in pairs], rates[0])
    await intake.idle()
    assert len(ops) == len(pairs)
    expected = [parse(event, data) for event, data in pairs]
    for turn, ((op,), (fields, _)) in enumerate(zip(ops, expected, strict=True)):
        compare(fields, unpack("op_t", op), f"{turn} {fields['kind']}")
    assert packets(beat for (beat,) in values) == [value for _, value in expected if value]
    return values, {fields["kind"] for fields, _ in expected}


@cocotb.test(timeout_time=200, timeout_unit="us")
async def the_hash_is_the_one_of_the_specification(dut):
    assert mix(0) == 0x5F308FD5DA79E7D3 and mix(1) == 0x8894667358BBCE2D
    keys = [0, 1, WORD, *(1 << bit for bit in range(64))]
    pairs = []
    for key in keys:
        data = bytes([GET]) + bytes(7) + (1).to_bytes(8, "big") * 2 + bytes(8) + key.to_bytes(8, "big")
        pairs.append(({"kind": "EventCall", "last": 1, "from": 0, "caller": {}, "message": REQUEST, "tag": 0, "bytes": 40}, data))
        pairs[-1][0]["caller"] = {"kind": 0, "mac": key & 0xFFFF, "address": 0, "port": 0}
    await run(dut, 1, pairs, (1, 1, 1, 1))


@cocotb.test(timeout_time=200, timeout_unit="us")
@cocotb.parametrize(rates=[(1, 1, 1, 1), (0.3, 1, 1, 1), (1, 0.5, 1, 1), (1, 1, 0.3, 0.4), (0.7, 0.7, 0.7, 0.7)])
async def any_message(dut, rates):
    chance = Bench(dut, sum(rates)).chance
    _, kinds = await run(dut, 1, [pick(chance) for _ in range(400)], rates)
    assert len(kinds) == 13


@cocotb.test(timeout_time=200, timeout_unit="us")
async def every_bit_of_a_header_counts(dut):
    chance = Bench(dut, 7).chance
    value = chance.randbytes(3)
    word = lambda value: value.to_bytes(8, "big")  # noqa: E731
    request = bytes([COMPARE_AND_SET, 0, 0, 3, 0, 0, 0, 0]) + b"".join(map(word, (5, 6, 7, 8))) + value
    write = bytes([0, 0, 0, 1, PUT, 0, 0, 3]) + b"".join(map(word, (1, 2, 3, 4, 5, 6))) + value
    acknowledge = bytes([0, 0, 0, 1, 0, 0, 0, 0]) + word(1 << 39) + word(1 << 39)
    pairs = []
    for kind, message, data in (("EventCall", REQUEST, request), ("EventDeliver", WRITE, write), ("EventDeliver", ACKNOWLEDGE, acknowledge)):
        for bit in range(-1, 8 * len(data)):
            changed = bytearray(data)
            if bit >= 0:
                changed[bit // 8] ^= 1 << bit % 8
            event = {"kind": kind, "last": 1, "from": 3, "caller": caller(chance), "message": message, "tag": 0, "bytes": len(data)}
            pairs.append((event, bytes(changed)))
    await run(dut, 7, pairs, (1, 1, 1, 1))


@cocotb.test(timeout_time=200, timeout_unit="us")
async def values_are_zero_behind_their_end(dut):
    pairs = []
    word = (1).to_bytes(8, "big")
    for length in (1, 8, 23, 24, 25, 63, 64, 65, 88, 89, 1024):
        for kind, message, head in (("EventCall", REQUEST, 40), ("EventDeliver", WRITE, 56)):
            first = bytes([PUT, 0]) + length.to_bytes(2, "big") + bytes(4)
            if message == WRITE:
                first = bytes(4) + bytes([PUT, 0]) + length.to_bytes(2, "big")
            middle = word * 2 + (bytes(8) if message == REQUEST else word * 3) + word
            data = first + middle + b"\xff" * length
            assert len(data) == head + length
            pairs.append(({"kind": kind, "last": 1, "from": 0, "caller": {"kind": 0, "mac": 0, "address": 0, "port": 0},
                           "message": message, "tag": 0, "bytes": len(data)}, data))
    values, _ = await run(dut, 3, pairs, (1, 1, 1, 1))
    expected = [beat for _, data in pairs for beat in beats(parse(*[(e, d) for e, d in pairs if d is data][0])[1])]
    assert [beat for (beat,) in values] == expected


@cocotb.test(timeout_time=200, timeout_unit="us")
async def three_cycles_to_an_operation_and_three_between_two(dut):
    intake = Bench(dut, 1)
    await intake.start(bucket_mask_i=MASK)
    data = bytes(8) + (9).to_bytes(8, "big") + bytes(8)
    event = packed({"kind": "EventDeliver", "last": 1, "from": 2, "message": ACKNOWLEDGE, "bytes": 24})
    dut.op_ready_i.value = 1
    dut.value_ready_i.value = 1
    dut.event_valid_i.value, dut.event_i.value = 1, event
    dut.payload_valid_i.value, dut.payload_i.value = 1, beats(data)[0]
    times = []
    for cycle in range(30):
        await ReadOnly()
        if int(dut.op_valid_o.value):
            times.append(cycle)
        await FallingEdge(dut.clk_i)
    assert times == list(range(3, 30, 3)), times
    dut.event_valid_i.value = 0
    dut.payload_valid_i.value = 0
    await intake.idle()
    # The beats of a value follow the operation at once, one each cycle.
    request = bytes([PUT, 0, 4, 0]) + bytes(4) + (1).to_bytes(8, "big") * 2 + bytes(16) + intake.chance.randbytes(1024)
    event = packed({"kind": "EventCall", "last": 1, "message": REQUEST, "bytes": len(request)})
    dut.event_valid_i.value, dut.event_i.value = 1, event
    parts = beats(request)
    times, sent = [], 0
    for cycle in range(30):
        dut.payload_valid_i.value = int(sent < len(parts))
        dut.payload_i.value = parts[min(sent, len(parts) - 1)]
        await ReadOnly()
        sent += sent < len(parts) and int(dut.payload_ready_o.value)
        times += [cycle] if int(dut.value_valid_o.value) else []
        await FallingEdge(dut.clk_i)
        dut.event_valid_i.value = 0
    assert times == list(range(4, 20)), times


def test_kv_intake():
    bench.run(
        "kv_intake",
        ["weft_pkg.sv", "engines/engines_pkg.sv", "engines/kv/kv_pkg.sv", "engines/kv/kv_messages_pkg.sv",
         "engines/kv/kv_hash.sv", "engines/kv/kv_intake.sv"],
        __file__,
    )
