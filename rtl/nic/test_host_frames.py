"""host_frames and its frame_buffer: whole frames in order in both directions; a slow host loses frames and stalls
nothing."""

import cocotb

import bench
from streams import Bench, beats, packets


class Host(Bench):
    async def ready(self, rate=1.0):
        await self.start()
        self.up = self.take("to_host", ["_o", "_bytes_o", "_timestamp_o"], rate)
        self.down = self.take("out", ["_o"], rate)

    def items(self, frames):
        return [
            {"_i": beat, "_timestamp_i": index if first else 0xDEAD}
            for index, frame in enumerate(frames)
            for first, beat in zip([True] + [False] * 1000, beats(frame, self.chance))
        ]


@cocotb.test()
async def both_ways_at_once(dut):
    host = Host(dut, 1)
    await host.ready(rate=0.8)
    frames = [host.chance.randbytes(host.chance.choice((14, 60, 63, 64, 65, 128, 300, 1514))) for _ in range(150)]
    back = [{"_i": beat} for frame in reversed(frames) for beat in beats(frame)]
    task = cocotb.start_soon(host.send("from_host", back, 0.8))
    await host.send("frame", host.items(frames), 0.5)
    await task
    await host.idle()
    assert packets(beat for beat, _, _ in host.up) == frames
    assert packets(beat for (beat,) in host.down) == frames[::-1]
    lasts = [(count, stamp) for beat, count, stamp in host.up if beat >> 518]
    assert lasts == [(len(frame), index) for index, frame in enumerate(frames)]
    assert host.events["frames_to_host"] == host.events["frames_from_host"] == len(frames)


@cocotb.test()
async def a_slow_host_loses_whole_frames(dut):
    host = Host(dut, 2)
    await host.ready(rate=0.0)
    frames = [index.to_bytes(2, "big") * 320 for index in range(100)]
    await host.send("frame", host.items(frames))
    await host.cycles(5)
    kept, lost = host.events["frames_to_host"], host.events["drop_host_queue_full"]
    assert kept + lost == 100 and kept >= 50
    host.rates["to_host"] = 1.0
    await host.idle()
    assert packets(beat for beat, _, _ in host.up) == frames[:kept]
    # Many short frames use up the entries before the beats.
    host.rates["to_host"] = 0.0
    await host.cycles(2)
    await host.send("frame", host.items([bytes(60)] * 80))
    host.rates["to_host"] = 1.0
    await host.idle()
    assert host.events["frames_to_host"] - kept in range(60, 70)
    assert host.events["frames_to_host"] + host.events["drop_host_queue_full"] == 180


@cocotb.test()
async def the_wire_makes_the_host_wait(dut):
    host = Host(dut, 3)
    await host.ready(rate=0.0)
    frames = [index.to_bytes(2, "big") * 320 for index in range(80)]
    task = cocotb.start_soon(host.send("from_host", [{"_i": beat} for frame in frames for beat in beats(frame)]))
    await host.cycles(900)
    assert not task.done()
    host.rates["out"] = 1.0
    await task
    await host.idle()
    assert packets(beat for (beat,) in host.down) == frames


@cocotb.test()
async def a_frame_longer_than_the_buffer_is_dropped(dut):
    host = Host(dut, 4)
    await host.ready()
    frames = [b"a" * 100, bytes(64 * 513), b"b" * 100, bytes(64 * 700), b"c" * 100]
    await host.send("from_host", [{"_i": beat} for frame in frames for beat in beats(frame)])
    await host.idle()
    assert packets(beat for (beat,) in host.down) == frames[::2]
    assert host.events["drop_host_frame_size"] == 2


def test_host_frames():
    sources = ["weft_pkg.sv", "stream/fifo.sv", "stream/ram.sv", "nic/frame_buffer.sv", "nic/host_frames.sv"]
    bench.run("host_frames", sources, __file__)
