"""round_broadcaster: heads and proposals are sent as messages, byte for byte, in order and without gaps."""

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly

import bench
import round_messages as messages
from streams import Bench, packets
from structs import constant, pack, unpack

DEPTH = 16


class Sender(Bench):
    """The bench, with a model of the proposal store that answers one cycle after a read."""

    async def begin(self, message_rate=1.0, body_rate=1.0):
        self.store = {}
        self.dut.send_i.value = 0
        self.dut.read_data_i.value = 0
        await self.start()
        self.heads = self.take("message", ["_o"], message_rate)
        self.bodies = self.take("body", ["_o"], body_rate)
        cocotb.start_soon(self.serve())

    async def serve(self):
        dut = self.dut
        while True:
            await ReadOnly()
            asked = (int(dut.read_place_o.value), int(dut.read_index_o.value)) if int(dut.read_o.value) else None
            await FallingEdge(dut.clk_i)
            if asked:
                dut.read_data_i.value = self.store[asked]

    def compose(self, bytes_):
        """A random message to send, and the expected output."""
        chance = self.chance
        place = chance.randrange(256)
        # The last beat's bytes behind a proposal are left over from another proposal.
        stored = chance.randbytes(512)
        while any((place, index) in self.store for index in range(8)):
            place = (place + 1) % 256
        for index in range(8):
            self.store[place, index] = messages.number_of(stored[64 * index : 64 * index + 64])
        head, area = chance.randbytes(16), chance.randbytes(48)
        head_bytes = 64 if bytes_ else chance.choice((8, 16, 64))
        whole = (head + area)[:head_bytes] + stored[:bytes_]
        reply = chance.random() < 0.3
        caller = messages.random_caller(chance)
        kind, to = chance.randrange(256), chance.randrange(256)
        # Bytes behind the head are not part of the message.
        full = (head + area)[:head_bytes].ljust(64, b"\0")
        send = pack("rounds_send_t", reply=reply, to=to, caller=caller, message=kind, head_bytes=head_bytes, bytes=bytes_,
                    place=place, head=messages.number_of(full[:16]), area=messages.number_of(full[16:]))
        message = dict(reply=int(reply), to=to, caller=caller, message=kind, bytes=len(whole))
        return {"_i": send}, message, whole

    def check(self, expected):
        assert [unpack("engine_message_t", head) for (head,) in self.heads] == [message for _, message, _ in expected]
        assert packets(body for (body,) in self.bodies) == [whole for *_, whole in expected]
        for (body,) in self.bodies:
            empty = body >> 512 & 63
            assert not empty or not body >> 8 * (64 - empty) & (1 << 8 * empty) - 1, "what pads a beat is zero"


SIZES = (0, 1, 8, 63, 64, 65, 127, 128, 129, 447, 448)


@cocotb.test()
async def every_size(dut):
    sender = Sender(dut, 1)
    await sender.begin(0.5, 0.5)
    for _ in range(3):
        expected = [sender.compose(bytes_) for bytes_ in SIZES]
        sender.heads.clear()
        sender.bodies.clear()
        await sender.send("send", [send for send, *_ in expected], 0.7)
        while len(packets(body for (body,) in sender.bodies)) < len(expected):
            await FallingEdge(dut.clk_i)
        await sender.cycles(5)
        sender.check(expected)
        sender.store.clear()


@cocotb.test()
async def nothing_pauses(dut):
    """Once a message is accepted, a beat leaves in every cycle, and the next message follows at once."""
    sender = Sender(dut, 2)
    await sender.begin()
    expected = [sender.compose(bytes_) for bytes_ in (448, 0, 65, 0, 0, 64, 448, 1)]
    gone = cocotb.start_soon(sender.send("send", [send for send, *_ in expected]))
    cycle, moved, begun = 0, [], []
    while len(packets(body for (body,) in sender.bodies)) < len(expected):
        await ReadOnly()
        if int(dut.body_valid_o.value) and int(dut.body_ready_i.value):
            moved.append(cycle)
        if int(dut.message_valid_o.value) and int(dut.message_ready_i.value):
            begun.append(cycle)
        await FallingEdge(dut.clk_i)
        cycle += 1
        assert cycle < 200
    await gone
    beats = [1 + -(-(len(whole) - 64) // 64) if len(whole) > 64 else 1 for *_, whole in expected]
    assert moved == list(range(moved[0], moved[0] + sum(beats)))
    assert begun == [moved[0] + sum(beats[:index]) for index in range(len(beats))]
    await sender.cycles(3)
    sender.check(expected)


@cocotb.test()
async def head_and_body_are_taken_apart(dut):
    """Message and payload are accepted independently, in either order; neither is offered twice."""
    sender = Sender(dut, 3)
    await sender.begin()
    for prompt in ("message", "body"):
        sender.rates.update(message=0.0, body=0.0)
        sender.heads.clear()
        sender.bodies.clear()
        expected = [sender.compose(448), sender.compose(0)]
        await sender.send("send", [send for send, *_ in expected])
        await sender.cycles(3)
        sender.rates[prompt] = 1.0
        await sender.cycles(40)
        # The second one waits until both parts of the first have gone.
        assert (len(sender.heads), len(sender.bodies)) == ((1, 0) if prompt == "message" else (0, 8))
        sender.rates.update(message=1.0, body=1.0)
        await sender.cycles(40)
        sender.check(expected)


@cocotb.test()
async def so_many_wait(dut):
    sender = Sender(dut, 4)
    await sender.begin(0.0, 0.0)
    expected = [sender.compose(chance) for chance in (0, 448) * (DEPTH // 2)]
    assert len(expected) == DEPTH
    for count, (send, *_) in enumerate(expected):
        assert int(dut.level_o.value) == count
        await sender.send("send", [send])
    await sender.cycles(2)
    assert int(dut.level_o.value) == DEPTH and not int(dut.send_ready_o.value)
    sender.rates.update(message=1.0, body=1.0)
    await sender.cycles(DEPTH * 9)
    assert int(dut.level_o.value) == 0
    sender.check(expected)


def test_round_broadcaster():
    assert constant("RoundsHeadBytes") == 64
    sources = ["weft_pkg.sv", "engines/engines_pkg.sv", "engines/rounds/rounds_pkg.sv", "stream/fifo.sv"]
    bench.run("round_broadcaster", [*sources, "engines/rounds/round_broadcaster.sv"], __file__)
