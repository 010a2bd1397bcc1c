"""reply_slots: a buffer is taken once and released once; a reset frees all buffers of a queue pair and starts a
new incarnation."""

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly

import bench
from streams import Bench
from structs import constant, pack

REPLIES, QUEUE_PAIRS = constant("Replies"), constant("QueuePairs")


class Slots(Bench):
    async def ready(self):
        await self.start(clear=QUEUE_PAIRS + 2, forget_valid_i=0)

    async def ask(self, prefix, **inputs):
        """Offers an operation until it is accepted; its answer is then at the outputs."""
        dut = self.dut
        for name, value in inputs.items():
            getattr(dut, f"{prefix}{name}_i").value = value
        getattr(dut, f"{prefix}_valid_i").value = 1
        await ReadOnly()
        while not int(getattr(dut, f"{prefix}_ready_o").value):
            await FallingEdge(dut.clk_i)
            await ReadOnly()
        answer = {
            name: int(getattr(dut, name).value)
            for name in ("take_stale_o", "take_full_o", "take_index_o", "call_incarnation_o", "check_stale_o")
        }
        await FallingEdge(dut.clk_i)
        getattr(dut, f"{prefix}_valid_i").value = 0
        return answer

    async def take(self, qp, incarnation):
        return await self.ask("take", _qp=qp, _incarnation=incarnation)

    async def give_back(self, qp, incarnation, index):
        await self.ask("give_back", **{"": pack("reply_slot_t", qp=qp, incarnation=incarnation, index=index)})

    async def is_stale(self, qp, incarnation, index):
        slot = pack("reply_slot_t", qp=qp, incarnation=incarnation, index=index)
        return bool((await self.ask("check", **{"": slot}))["check_stale_o"])

    async def forget(self, qp):
        self.dut.forget_valid_i.value, self.dut.forget_qp_i.value = 1, qp
        await self.cycles(1)
        self.dut.forget_valid_i.value = 0


@cocotb.test()
async def random_operations(dut):
    slots = Slots(dut, 1)
    await slots.ready()
    chance = slots.chance
    known = [0, 1, 200, 511]
    incarnation, lent, old = dict.fromkeys(known, 0), {qp: set() for qp in known}, []
    fulls = stales = 0
    for _ in range(4_000):
        qp = chance.choice(known)
        match chance.choices(["take", "back", "forget", "call", "late", "stale", "check"], [50, 38, 1, 5, 3, 3, 5])[0]:
            case "take":
                answer = await slots.take(qp, incarnation[qp])
                assert not answer["take_stale_o"] and answer["take_full_o"] == (len(lent[qp]) == REPLIES)
                if answer["take_full_o"]:
                    fulls += 1
                else:
                    assert answer["take_index_o"] not in lent[qp]
                    lent[qp].add(answer["take_index_o"])
            case "back" if lent[qp]:
                index = chance.choice(sorted(lent[qp]))
                lent[qp].remove(index)
                await slots.give_back(qp, incarnation[qp], index)
            case "forget":
                await slots.forget(qp)
                await slots.cycles(6)
                old += [(qp, incarnation[qp], index) for index in lent[qp]]
                incarnation[qp] = incarnation[qp] + 1 & 255
                lent[qp].clear()
            case "call":
                assert (await slots.ask("call", _qp=qp))["call_incarnation_o"] == incarnation[qp]
            case "late" if old:
                # The completion of a SEND from before a reset releases no buffer.
                assert await slots.is_stale(*old[-1])
                await slots.give_back(*old.pop())
            case "check" if lent[qp]:
                assert not await slots.is_stale(qp, incarnation[qp], chance.choice(sorted(lent[qp])))
            case "stale":
                answer = await slots.take(qp, incarnation[qp] - 1 & 255)
                assert answer["take_stale_o"]
                stales += 1
    assert fulls > 20 and stales > 20
    await slots.idle()


@cocotb.test()
async def all_at_once(dut):
    """A reset has priority, and operations offered at the same time see its effect."""
    slots = Slots(dut, 2)
    await slots.ready()
    for _ in range(REPLIES):
        await slots.take(9, 0)
    forget = cocotb.start_soon(slots.forget(9))
    await FallingEdge(dut.clk_i)
    await forget
    answer = await slots.take(9, 0)
    assert answer["take_stale_o"]
    answer = await slots.take(9, 1)
    assert not answer["take_stale_o"] and not answer["take_full_o"]
    assert not await slots.is_stale(9, 1, 0) and await slots.is_stale(9, 0, 0)


def test_reply_slots():
    sources = ["weft_pkg.sv", "engines/engines_pkg.sv", "stream/ram.sv", "engines/reply_slots.sv"]
    bench.run("reply_slots", sources, __file__)
