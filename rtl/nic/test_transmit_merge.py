"""transmit_merge: whole frames, each source in order, round-robin, padding, and time stamps of marked datagrams."""

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly

import bench
from streams import Bench, beats

SOURCES = ("roce", "control", "datagram", "host", "engine")


class Merge(Bench):
    async def ready(self, rate=1.0):
        await self.start()
        self.out = []
        self.stamps = []
        cocotb.start_soon(self._mac(rate))

    async def _mac(self, rate):
        """Receives frames, recorded as (cycle of the first beat, bytes)."""
        dut = self.dut
        data, first = b"", None
        while True:
            ready = self.chance.random() < rate
            dut.mac_ready_i.value = int(ready)
            await ReadOnly()
            if int(dut.stamp_valid_o.value):
                self.stamps.append((int(dut.stamp_tag_o.value), int(dut.stamp_o.value)))
            if ready and int(dut.mac_valid_o.value):
                keep, last = int(dut.mac_keep_o.value), int(dut.mac_last_o.value)
                count = keep.bit_count()
                assert keep == (1 << count) - 1 and (last or count == 64)
                first = self.now if first is None else first
                data += int(dut.mac_data_o.value).to_bytes(64, "little")[:count]
                if last:
                    self.out.append((first, data))
                    data, first = b"", None
            await FallingEdge(dut.clk_i)

    def items(self, source, frames, tags=()):
        out = []
        for index, frame in enumerate(frames):
            for beat in beats(frame, self.chance):
                item = {"_i": beat}
                if source == "datagram":
                    tag = tags[index] if tags else None
                    item |= {"_stamp_i": int(tag is not None), "_tag_i": tag or 0}
                out.append(item)
        return out


@cocotb.test()
async def all_of_each_in_order_and_padded(dut):
    merge = Merge(dut, 1)
    await merge.ready(rate=0.8)
    lengths = (14, 42, 58, 59, 60, 61, 63, 64, 65, 100, 128, 190)
    sent = {
        source: [
            bytes([index, *(merge.chance.randrange(256) for _ in range(merge.chance.choice(lengths) - 1))])
            for _ in range(80)
        ]
        for index, source in enumerate(SOURCES)
    }
    tags = [merge.chance.choice((None, index)) for index in range(80)]
    tasks = [
        cocotb.start_soon(merge.send(source, merge.items(source, sent[source], tags), merge.chance.choice((0.4, 1.0))))
        for source in SOURCES
    ]
    for task in tasks:
        await task
    await merge.idle()
    for index, source in enumerate(SOURCES):
        got = [frame for _, frame in merge.out if frame[0] == index]
        assert got == [frame.ljust(60, b"\0") for frame in sent[source]]
    assert merge.events["frames_sent"] == 400
    left = [when for when, frame in merge.out if frame[0] == SOURCES.index("datagram")]
    assert merge.stamps == [(tag, when) for tag, when in zip(tags, left) if tag is not None]


@cocotb.test()
async def nobody_starves_and_roce_and_engines_have_a_third_each(dut):
    merge = Merge(dut, 2)
    await merge.ready()
    tasks = [
        cocotb.start_soon(merge.send(source, merge.items(source, [bytes([index]) * 138] * 300)))
        for index, source in enumerate(SOURCES)
    ]
    await merge.cycles(600)
    shares = [sum(frame[0] == index for _, frame in merge.out) for index in range(5)]
    total = sum(shares)
    assert total >= 195, "the wire is always busy"
    assert all(abs(share - total / 3) <= 2 for share in (shares[0], shares[4]))
    assert all(abs(share - total / 9) <= 2 for share in shares[1:4])
    for task in tasks:
        task.cancel()


@cocotb.test()
@cocotb.parametrize(source=["roce", "engine"])
async def one_alone_has_the_whole_rate(dut, source):
    merge = Merge(dut, 3)
    await merge.ready()
    await merge.send(source, merge.items(source, [bytes(138)] * 100))
    await merge.idle()
    starts = [when for when, _ in merge.out]
    assert starts == list(range(starts[0], starts[0] + 300, 3))


def test_transmit_merge():
    bench.run("transmit_merge", ["weft_pkg.sv", "stream/arbiter.sv", "nic/transmit_merge.sv"], __file__)
