"""kv_hash: the positions of keys in the table, compared with the same hash in Python, with a latency of 2
cycles."""

import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge

import bench
from structs import constant, unpack

ROUNDS = (
    (0x243F6A8885A308D3, 2, 24, 27, 11),
    (0x13198A2E03707344, 60, 10, 17, 5),
    (0xA4093822299F31D0, 22, 20, 53, 39),
    (0x082EFA98EC4E6C89, 38, 1, 39, 44),
)
MASK = (1 << 64) - 1


def mix(x):
    def rotate(by):
        return (x << by | x >> 64 - by) & MASK

    for added, a, b, d, e in ROUNDS:
        x ^= added
        x ^= rotate(a) ^ rotate(b)
        x ^= rotate(d) & ~rotate(e) & MASK
    return x


def place(key, mask):
    whole = 0
    for at in reversed(range(0, constant("KeyBits"), 64)):
        whole = mix(whole ^ (key >> at & MASK))
    return {"bucket": whole & mask, "way": whole >> 32 & 31, "tag": whole >> 53 or 1}


@cocotb.test()
async def places(dut):
    assert (mix(0), mix(1)) == (0x5F308FD5DA79E7D3, 0x8894667358BBCE2D)
    chance = random.Random(1)
    latency = 2 * constant("KeyBits") // 64
    cocotb.start_soon(Clock(dut.clk_i, 4, unit="ns").start())
    dut.rst_ni.value = 0
    dut.key_valid_i.value = 0
    mask = 255
    dut.bucket_mask_i.value = mask
    for _ in range(2):
        await FallingEdge(dut.clk_i)
    dut.rst_ni.value = 1
    before = [None] * latency
    shown = None
    for step in range(3_000):
        if step == 1_500:
            mask = constant("BucketsMax") - 1
            dut.bucket_mask_i.value = mask
            before = [None] * latency
            shown = None
            dut.key_valid_i.value = 0
            for _ in range(latency + 1):
                await FallingEdge(dut.clk_i)
        key = None
        if chance.random() < 0.7:
            key = step if step < 20 else chance.getrandbits(constant("KeyBits"))
            dut.key_i.value = key
        dut.key_valid_i.value = int(key is not None)
        before.append(key)
        await FallingEdge(dut.clk_i)
        # This is after the edge that accepted this key, so the output belongs to the key of `latency` edges ago.
        out = before[-latency]
        assert int(dut.place_valid_o.value) == int(out is not None)
        shown = out if out is not None else shown
        if shown is not None:
            assert unpack("place_t", dut.place_o.value) == place(shown, mask)
    # A tag is never zero.
    assert all(place(key, mask)["tag"] for key in range(1_000))


def test_kv_hash():
    sources = ["weft_pkg.sv", "engines/engines_pkg.sv", "engines/kv/kv_pkg.sv", "engines/kv/kv_hash.sv"]
    bench.run("kv_hash", sources, __file__)
