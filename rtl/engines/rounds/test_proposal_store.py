"""proposal_store: reads return what was written, for proposals of one beat and of eight."""

import random

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly

import bench
from structs import pack, unpack


async def clock(dut):
    cocotb.start_soon(Clock(dut.clk_i, 4, unit="ns").start())
    for name in ("write_i", "write_place_i", "write_index_i", "write_data_i", "write_length_i", "length_i", "change_i",
                 "place_i", "read_i", "read_place_i", "read_index_i"):
        getattr(dut, name).value = 0
    await FallingEdge(dut.clk_i)


@cocotb.test()
async def follows_the_model(dut):
    chance = random.Random(9)
    await clock(dut)
    beats = -(-int(dut.ProposalBytes.value) // 64)
    stored, lengths, contents = {}, {}, {}
    shown, reads = None, 0  # the last beat read
    # Some slots are used often, together with slots whose addresses differ from theirs in one bit.
    places = [0, 1, 127, 128, 128 + 31, 160, 160 + 15, 255, *(1 << bit for bit in range(1, 7))]
    for _ in range(20_000):
        write, write_length = chance.random() < 0.5, chance.random() < 0.3
        place, index = chance.choice(places), chance.randrange(beats)
        data, length, change = chance.getrandbits(512), chance.randrange(449), chance.getrandbits(1)
        dut.write_i.value, dut.write_place_i.value, dut.write_index_i.value = write, place, index
        dut.write_data_i.value, dut.write_length_i.value = data, write_length
        dut.length_i.value, dut.change_i.value = length, change
        look = chance.choice(places)
        dut.place_i.value = look
        # A beat must not be read in the cycle in which it is written.
        known = [key for key in stored if not (write and key == (place, index))]
        read = chance.choice(known) if known and chance.random() < 0.6 else None
        dut.read_i.value = read is not None
        dut.read_place_i.value, dut.read_index_i.value = read or (chance.choice(places), chance.randrange(beats))
        await ReadOnly()
        if look in lengths:
            assert (int(dut.length_o.value), int(dut.change_o.value)) == lengths[look]
        if look in contents:
            assert unpack("change_t", dut.content_o.value) == contents[look]
        if shown is not None:
            assert int(dut.read_data_o.value) == shown, "it holds its value until the next read"
        if read:
            shown, reads = stored[read], reads + 1
        if write:
            stored[place, index] = data
            if index == 0:
                contents[place] = unpack("change_t", data & (1 << 16) - 1)
        if write_length:
            lengths[place] = (length, change)
        await FallingEdge(dut.clk_i)
    assert reads > 5_000 and len(stored) == len(places) * beats and len(lengths) == len(places)


@cocotb.test()
async def a_change_is_what_its_bytes_say(dut):
    await clock(dut)
    dut.write_i.value, dut.write_place_i.value = 1, 0xA5
    dut.write_data_i.value = int.from_bytes(bytes([0x12, 0x34]) + bytes(62), "little")
    await FallingEdge(dut.clk_i)
    dut.write_i.value, dut.place_i.value = 0, 0xA5
    await ReadOnly()
    assert int(dut.content_o.value) == pack("change_t", add=0x12, remove=0x34)


@pytest.mark.parametrize("proposal_bytes", [64, 448])
def test_proposal_store(proposal_bytes):
    sources = ["weft_pkg.sv", "engines/engines_pkg.sv", "engines/rounds/rounds_pkg.sv", "stream/ram.sv"]
    bench.run("proposal_store", [*sources, "engines/rounds/proposal_store.sv"], __file__, {"ProposalBytes": proposal_bytes})
