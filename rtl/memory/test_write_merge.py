"""write_merge: writes of two sources reach memory whole, each source's in order, and each source is notified when
its writes are visible."""

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly

import bench
from streams import Bench
from structs import pack, unpack

SOURCES = 2


@cocotb.test()
async def two_sources(dut):
    merge = Bench(dut, 1)
    await merge.start(out_written_i=0, in_data_i=0, in_i=0)
    chance = merge.chance
    command_bits, beat_bits = len(dut.in_i) // SOURCES, len(dut.in_data_i) // SOURCES
    writes = [
        [{"address": source << 40 | number << 12, "bytes": 64 * chance.choice([1, 1, 2, 5, 17])} for number in range(300)]
        for source in range(SOURCES)
    ]

    def beats_of(write):
        count = write["bytes"] // 64
        return [pack("write_beat_t", last=at == count - 1, data=write["address"] + at) for at in range(count)]

    commands = [list(of) for of in writes]
    data = [[beat for write in of for beat in beats_of(write)] for of in writes]
    sent = [0] * SOURCES  # beats of commands that have been accepted
    offered = {"command": [False] * SOURCES, "data": [False] * SOURCES}
    taken, stored, unwritten = [], [], []
    told = [0] * SOURCES
    for _ in range(40_000):
        valid = data_valid = packed = packed_data = 0
        for source in range(SOURCES):
            offered["command"][source] |= bool(commands[source]) and chance.random() < 0.5
            if offered["command"][source]:
                valid |= 1 << source
                packed |= pack("write_command_t", transfer=commands[source][0]) << source * command_bits
            # Data follows its command.
            offered["data"][source] |= sent[source] > 0 and chance.random() < 0.7
            if offered["data"][source]:
                data_valid |= 1 << source
                packed_data |= data[source][0] << source * beat_bits
        dut.in_valid_i.value, dut.in_i.value = valid, packed
        dut.in_data_valid_i.value, dut.in_data_i.value = data_valid, packed_data
        dut.out_ready_i.value, dut.out_data_ready_i.value = chance.random() < 0.6, chance.random() < 0.9
        written = bool(unwritten) and chance.random() < 0.3
        dut.out_written_i.value = written
        await ReadOnly()
        ready, data_ready = int(dut.in_ready_o.value), int(dut.in_data_ready_o.value)
        if written:
            source = unwritten.pop(0)
            told[source] += 1
            assert int(dut.in_written_o.value) == 1 << source
        else:
            assert not int(dut.in_written_o.value)
        if int(dut.out_data_valid_o.value) and int(dut.out_data_ready_i.value):
            stored.append(int(dut.out_data_o.value))
            if unpack("write_beat_t", stored[-1])["last"]:
                unwritten.append(stored[-1] >> 40 & 1)
        if int(dut.out_valid_o.value) and int(dut.out_ready_i.value):
            taken.append(unpack("write_command_t", dut.out_o.value)["transfer"])
        for source in range(SOURCES):
            if valid >> source & ready >> source & 1:
                sent[source] += commands[source].pop(0)["bytes"] // 64
                offered["command"][source] = False
            if data_valid >> source & data_ready >> source & 1:
                data[source].pop(0)
                sent[source] -= 1
                offered["data"][source] = False
        await FallingEdge(dut.clk_i)
        if sum(told) == 300 * SOURCES:
            break
    assert told == [300] * SOURCES and int(dut.idle_o.value)
    for source in range(SOURCES):
        assert [write for write in taken if write["address"] >> 40 == source] == writes[source]
    # Beats arrive in the order of the commands.
    assert stored == [beat for write in taken for beat in beats_of(write)]
    turns = [write["address"] >> 40 for write in taken]
    assert all(len(set(turns[at : at + 12])) == 2 for at in range(0, 480, 12)), "one source has to wait for long"


def test_write_merge():
    sources = ["weft_pkg.sv", "stream/arbiter.sv", "stream/fifo.sv", "memory/write_merge.sv"]
    bench.run("write_merge", sources, __file__)
