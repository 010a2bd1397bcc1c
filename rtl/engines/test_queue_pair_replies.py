"""queue_pair_replies: answers are written where their SENDs read them, posted when they are in memory, and no
buffer is leaked."""

from collections import defaultdict, deque

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly

import bench
from streams import Bench, beats
from structs import constant, pack, unpack, width

REPLIES, BYTES = constant("Replies"), constant("ReplyBytes")
QUEUE_PAIRS = constant("QueuePairs")
BASE, LKEY = 0x1_0000_0038, 0x1234
NOW, OLD = 3, 6  # incarnations: the initial one of all queue pairs, and a stale one


class Replies(Bench):
    """Plays reply_slots, memory, the send queues and the peers' acknowledgements."""

    async def ready(self, refuse=0.0, ends=0.1):
        await self.start(base_i=BASE, lkey_i=LKEY, written_i=0, post_refused_i=0, forget_valid_i=0)
        self.incarnation = defaultdict(lambda: NOW)
        self.resets, self.forgotten, self.dropped, self.on_offer = deque(), 0, 0, None
        self.refuse, self.ends = refuse, ends
        self.lent, self.commands, self.memory = set(), deque(), {}
        self.unwritten, self.flying, self.posted = deque(), [], []
        self.most = 0
        cocotb.start_soon(self._play())

    async def _play(self):
        dut, chance = self.dut, self.chance
        ending = asked = checked = asking = None
        while True:
            # A queue pair is reset. The answer of reply_slots in this cycle is based on a lookup before the reset.
            dut.check_ready_i.value = checked is not None and chance.random() < 0.5
            dut.check_stale_i.value = bool(checked)
            reset = self.resets.popleft() if self.resets and chance.random() < (0.3 if checked is False else 0.05) else None
            if reset is not None and checked is False:
                # Resets the queue pair that is being looked up.
                reset = asking
            dut.forget_valid_i.value = reset is not None
            # reply_slots answers in the second cycle.
            dut.take_ready_i.value = 0
            if asked and chance.random() < 0.5:
                qp, incarnation = asked
                free = [index for index in range(REPLIES) if (qp, index) not in self.lent]
                stale = incarnation != self.incarnation[qp]
                dut.take_ready_i.value, dut.take_stale_i.value, dut.take_full_i.value = 1, stale, not free
                dut.take_index_i.value = free[0] if free else 0
                if free and not stale:
                    self.lent.add((qp, free[0]))
                    self.most = max(self.most, len(self.lent))
            dut.give_back_ready_i.value = chance.random() < 0.4
            dut.write_ready_i.value = chance.random() < 0.7
            dut.write_data_ready_i.value = chance.random() < 0.8
            done = bool(self.unwritten) and chance.random() < 0.2
            dut.written_i.value = done
            if done:
                command = self.unwritten.popleft()
                self.memory[command["address"]] = command
            dut.post_ready_i.value = chance.random() < 0.3
            dut.post_refused_i.value = chance.random() < self.refuse
            if ending is None and self.flying and chance.random() < self.ends:
                ending = self.flying.pop(0)
            dut.completion_valid_i.value = ending is not None
            if ending is not None:
                dut.completion_i.value = pack("completion_t", id=ending, status=chance.randrange(14))
            await ReadOnly()
            waits = int(dut.take_valid_o.value) and not int(dut.take_ready_i.value)
            asked = (int(dut.take_qp_o.value), int(dut.take_incarnation_o.value)) if waits else None
            waits = int(dut.check_valid_o.value) and not int(dut.check_ready_i.value)
            slot = unpack("reply_slot_t", dut.check_o.value)
            asking = slot["qp"]
            checked = slot["incarnation"] != self.incarnation[slot["qp"]] if waits else None
            if int(dut.write_valid_o.value) and int(dut.write_ready_i.value):
                command = unpack("write_command_t", dut.write_o.value)
                assert command["target"] == constant("TargetHbm") and not command["write_through"]
                self.commands.append(command["transfer"] | {"data": b""})
            if int(dut.write_data_valid_o.value) and int(dut.write_data_ready_i.value):
                beat = unpack("write_beat_t", dut.write_data_o.value)
                lanes = [lane for lane in range(64) if beat["strobe"] >> lane & 1]
                self.commands[0]["data"] += bytes(beat["data"] >> 8 * lane & 255 for lane in lanes)
                if beat["last"]:
                    self.unwritten.append(self.commands.popleft())
            if int(dut.post_valid_o.value) and int(dut.post_ready_i.value):
                post = unpack("work_request_t", dut.post_o.value)
                if int(dut.post_refused_i.value):
                    self.refused = getattr(self, "refused", 0) + 1
                else:
                    self.flying.append(post["id"])
                # After a reset, a post of the queue pair may come only if it was offered at the time of the reset.
                slot = unpack("reply_slot_t", post["id"] & (1 << width("reply_slot_t")) - 1)
                assert slot["incarnation"] == self.incarnation[post["qp"]] or self.on_offer == post["id"]
                # The SEND sends the current contents of the buffer.
                self.posted.append((post, self.memory[post["local_address"]]))
            self.dropped += bool(int(dut.check_ready_i.value) and int(dut.check_stale_i.value))
            if int(dut.give_back_valid_o.value) and int(dut.give_back_ready_i.value):
                slot = unpack("reply_slot_t", dut.give_back_o.value)
                if slot["incarnation"] == self.incarnation[slot["qp"]]:
                    self.lent.remove((slot["qp"], slot["index"]))
            self.on_offer = None
            if int(dut.post_valid_o.value) and not int(dut.post_ready_i.value):
                self.on_offer = unpack("work_request_t", dut.post_o.value)["id"]
            if reset is not None:
                self.incarnation[reset] += 1
                self.lent = {(qp, index) for qp, index in self.lent if qp != reset}
                self.forgotten += 1
            if int(dut.completion_valid_i.value) and int(dut.completion_ready_o.value):
                ending = None
            await FallingEdge(dut.clk_i)

    async def answer(self, all_of):
        messages = [
            {
                "_i": pack(
                    "engine_message_t",
                    reply=1,
                    caller={"kind": constant("CallerQueuePair"), "address": incarnation * QUEUE_PAIRS + qp},
                    message=kind,
                    bytes=len(text),
                )
            }
            for qp, incarnation, kind, text in all_of
        ]
        bodies = [{"_i": beat} for *_, text in all_of if text for beat in beats(text, self.chance)]
        tasks = [cocotb.start_soon(self.send("message", messages)), cocotb.start_soon(self.send("body", bodies))]
        for task in tasks:
            await task

    async def settle(self):
        while self.lent or self.unwritten or self.commands:
            await FallingEdge(self.dut.clk_i)
        await self.idle()

    def check(self, wanted):
        assert len(self.posted) == len(wanted)
        for (post, stored), (qp, _, kind, text) in zip(self.posted, wanted):
            whole = kind.to_bytes(8, "big") + text
            assert stored["data"] == whole and stored["bytes"] == len(whole)
            assert post["qp"] == qp and post["operation"] == constant("OperationSend") and post["signaled"]
            assert post["id"] >> 63 and (post["length"], post["lkey"]) == (len(whole), LKEY)
            place = post["local_address"] - BASE
            assert place % BYTES == 0 and place // BYTES // REPLIES == qp


def random_answers(chance, count, queue_pairs):
    lengths = [0, 1, 40, 63, 64, 65, 1064, BYTES - 8]
    return [
        (chance.choice(queue_pairs), 3, chance.randrange(256), chance.randbytes(chance.choice(lengths)))
        for _ in range(count)
    ]


@cocotb.test()
async def answers_of_many_queue_pairs(dut):
    replies = Replies(dut, 1)
    await replies.ready(ends=0.02)
    wanted = random_answers(replies.chance, 300, range(0, QUEUE_PAIRS, 5))
    await replies.answer(wanted)
    await replies.settle()
    replies.check(wanted)
    assert replies.most > 20 and not +replies.events


@cocotb.test()
async def refusals_give_buffers_back(dut):
    """Posts that the send queue refuses are counted, and their buffers are released."""
    replies = Replies(dut, 2)
    await replies.ready(refuse=0.4)
    wanted = random_answers(replies.chance, 200, range(0, QUEUE_PAIRS, 11))
    await replies.answer(wanted)
    await replies.settle()
    replies.check(wanted)
    assert replies.events["replies_refused"] == replies.refused > 40


@cocotb.test()
async def what_has_no_place_is_dropped(dut):
    """Answers that are too long, for a queue pair whose buffers are all in use, or for an earlier incarnation."""
    replies = Replies(dut, 3)
    await replies.ready()
    replies.lent = {(7, index) for index in range(REPLIES)}
    good = random_answers(replies.chance, 60, [1, 2, 3, 4])
    mixed, full, stale, long = [], 0, 0, 0
    for answer in good:
        mixed.append(answer)
        text = replies.chance.randbytes(replies.chance.choice([0, 30, 64, 200]))
        match replies.chance.randrange(3):
            case 0:
                mixed.append((7, 3, 1, text))
                full += 1
            case 1:
                mixed.append((1, OLD, 1, text))
                stale += 1
            case _:
                mixed.append((1, 3, 1, bytes(BYTES - 7)))
                long += 1
    # Few at a time, so that no other queue pair uses up its buffers.
    for at in range(0, len(mixed), 12):
        await replies.answer(mixed[at : at + 12])
        while len(replies.lent) > REPLIES:
            await FallingEdge(dut.clk_i)
    replies.lent -= {(7, index) for index in range(REPLIES)}
    await replies.settle()
    replies.check(good)
    assert replies.events["replies_without_buffer"] == full + long and replies.events["replies_refused"] == stale


@cocotb.test()
async def nobody_is_told_what_another_connection_has_asked(dut):
    """Queue pairs are reset while their answers are written into memory: these answers are dropped and counted."""
    replies = Replies(dut, 4)
    await replies.ready(ends=0.02)
    chance, queue_pairs, said = replies.chance, range(4), []
    for _ in range(60):
        # Answers to current calls, which may be stale when they are made.
        some = [(qp, replies.incarnation[qp], chance.randrange(256), chance.randbytes(chance.choice((0, 40, 200))))
                for qp in chance.choices(queue_pairs, k=8)]
        replies.resets.extend(chance.sample(queue_pairs, 2))
        await replies.answer(some)
        said += some
        while len(replies.lent) > 2 * REPLIES or len(replies.resets) > 4:
            await FallingEdge(dut.clk_i)
    await replies.settle()
    refused = replies.events["replies_refused"]
    assert len(replies.posted) + refused + replies.events["replies_without_buffer"] == len(said)
    assert replies.forgotten > 60 and refused > 40 and len(replies.posted) > 100
    # Some of the dropped answers had a buffer already.
    assert replies.dropped > 10


def test_queue_pair_replies():
    sources = ["weft_pkg.sv", "engines/engines_pkg.sv", "stream/fifo.sv", "engines/queue_pair_replies.sv"]
    bench.run("queue_pair_replies", sources, __file__)
