"""register_block: writes of the driver appear as streams; the addresses are those of the C header."""

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly

import bench
from registers import ADDRESSES
from streams import Bench
from structs import PACKAGE_TYPES, SERVICE_SOURCES, SERVICE_TYPES, constant, pack, unpack

COUNTERS = 85
WORDS = 16
REFUSED = 256
BUSY = {"queue_pair": 2, "region": 4, "control": 8, "neighbour": 16, "socket": 32, "query": 64, "counter": 128}
GO = 1 << 31


class Registers(Bench):
    async def ready(self):
        self.now = (7 << 32) + 5
        await self.start(idle_i=1, control_done_i=0, socket_done_i=0, socket_refused_i=0, query_done_i=0, counter_done_i=0)

    async def write(self, register, value):
        dut = self.dut
        dut.axil_awaddr_i.value = ADDRESSES.get(register, register)
        dut.axil_wdata_i.value = value
        dut.axil_wstrb_i.value = 15
        waiting = {"aw", "w"}
        for channel in waiting:
            getattr(dut, f"axil_{channel}valid_i").value = 1
        while waiting:
            await ReadOnly()
            taken = {channel for channel in waiting if int(getattr(dut, f"axil_{channel}ready_o").value)}
            await FallingEdge(dut.clk_i)
            waiting -= taken
            for channel in taken:
                getattr(dut, f"axil_{channel}valid_i").value = 0
        return await self._response("b", "bresp")

    async def read(self, register):
        dut = self.dut
        dut.axil_araddr_i.value = ADDRESSES.get(register, register)
        dut.axil_arvalid_i.value = 1
        await ReadOnly()
        while not int(dut.axil_arready_o.value):
            await FallingEdge(dut.clk_i)
            await ReadOnly()
        await FallingEdge(dut.clk_i)
        dut.axil_arvalid_i.value = 0
        return await self._response("r", "rdata")

    async def _response(self, channel, signal):
        dut = self.dut
        getattr(dut, f"axil_{channel}ready_i").value = 1
        await ReadOnly()
        while not int(getattr(dut, f"axil_{channel}valid_o").value):
            await FallingEdge(dut.clk_i)
            await ReadOnly()
        value = int(getattr(dut, f"axil_{signal}_o").value)
        await FallingEdge(dut.clk_i)
        getattr(dut, f"axil_{channel}ready_i").value = 0
        return value

    async def busy(self, mailbox):
        return bool(await self.read("status") & BUSY[mailbox])

    async def pulse(self, name):
        getattr(self.dut, name).value = 1
        await FallingEdge(self.dut.clk_i)
        getattr(self.dut, name).value = 0


@cocotb.test()
async def says_what_it_is(dut):
    registers = Registers(dut, 1)
    await registers.ready()
    assert await registers.read("identification") == int.from_bytes(b"WEFT", "big")
    assert await registers.read("version") == 1 << 16 | 1
    assert await registers.read("cycle") == 4000
    assert await registers.read("tables") == constant("Regions") << 16 | constant("QueuePairs")
    assert await registers.read("depths") == constant("ReceiveQueueDepth") << 16 | constant("SendQueueDepth")
    assert await registers.read("limits") == constant("WindowPackets") << 16 | constant("ResponderResources")
    assert await registers.read("statistics") == WORDS << 16 | COUNTERS
    assert await registers.read("status") == 1
    dut.idle_i.value = 0
    assert await registers.read("status") == 0
    assert await registers.write(0xFF0, 0) != 0, "no such register"
    assert await registers.write("identification", 0) == 0 and await registers.read("identification") != 0


@cocotb.test()
async def tells_the_time_in_two_halves(dut):
    registers = Registers(dut, 2)
    await registers.ready()
    registers.now = (8 << 32) - 2
    low = await registers.read("now_low")
    high = await registers.read("now_high")
    assert abs((high << 32 | low) - (8 << 32)) < 30
    assert registers.now >> 32 == 8


@cocotb.test()
async def configures_the_port(dut):
    registers = Registers(dut, 3)
    await registers.ready()
    await registers.write("hardware_low", 0x00AABBCC)
    await registers.write("hardware_high", 0x0200)
    await registers.write("ipv4", 0x0A000001)
    await registers.write("neighbour_age", 0x12345)
    await registers.write("sniffer.filter", 0b10101)
    await registers.write("sniffer.qp", 0xABCDEF)
    await registers.write("sniffer.address", 0x0A000002)
    await registers.write("sniffer.snap", 96)
    assert int(dut.hardware_o.value) == 0x020000AABBCC
    assert int(dut.address_o.value) == 0x0A000001
    assert int(dut.age_limit_o.value) == 0x12345 << 16
    assert unpack("sniffer_config_t", dut.sniffer_o.value) == dict(
        receive=1, transmit=0, roce_only=1, match_qp=0, qp=0xABCDEF, match_address=1, address=0x0A000002, snap=96
    )
    assert await registers.read("hardware_low") == 0x00AABBCC


@cocotb.test()
async def writes_queue_pairs(dut):
    registers = Registers(dut, 4)
    await registers.ready()
    widths = {name: bits for name, _, bits in PACKAGE_TYPES.structs["queue_pair_t"]}
    at = dict(path_mtu=0, max_dest_rd_atomic=3, max_rd_atomic=8, min_rnr_timer=13, timeout=18, retry_count=23,
              rnr_retry=26, engine=29)  # fmt: skip
    for _ in range(5):
        values = {name: registers.chance.getrandbits(bits) for name, bits in widths.items()}
        await registers.write("queue_pair.own_qp", values["number"])
        await registers.write("queue_pair.destination_qp", values["destination_qp"])
        await registers.write("queue_pair.destination", values["destination"])
        await registers.write("queue_pair.destination_mac_low", values["destination_mac"] & 0xFFFFFFFF)
        await registers.write("queue_pair.destination_mac_high", values["destination_mac"] >> 32)
        await registers.write("queue_pair.port", values["domain"] << 16 | values["source_port"])
        await registers.write("queue_pair.attributes", sum(values[name] << low for name, low in at.items()))
        await registers.write("queue_pair.command", GO)
        assert await registers.busy("queue_pair") and int(dut.table_write_valid_o.value)
        assert unpack("queue_pair_t", dut.table_write_o.value) == values
        await registers.pulse("table_write_ready_i")
        assert not await registers.busy("queue_pair") and not int(dut.table_write_valid_o.value)


@cocotb.test()
async def writes_regions(dut):
    registers = Registers(dut, 5)
    await registers.ready()
    widths = {name: bits for name, _, bits in PACKAGE_TYPES.structs["region_t"]}
    for _ in range(5):
        values = {name: registers.chance.getrandbits(bits) for name, bits in widths.items()}
        await registers.write("region.index", 777)
        await registers.write("region.lkey", values["lkey"])
        await registers.write("region.rkey", values["rkey"])
        for name, half in (("base", "address"), ("length", "bytes")):
            await registers.write(f"region.{name}_low", values[name] & 0xFFFFFFFF)
            await registers.write(f"region.{name}_high", values[name] >> 32)
        at = dict(domain=0, valid=16, access=17, target=21, write_through=23, rpc=24, slot=25)
        await registers.write("region.attributes", sum(values[name] << low for name, low in at.items()))
        await registers.write("region.command", GO)
        assert await registers.busy("region") and int(dut.region_write_valid_o.value)
        got = unpack("region_t", dut.region_write_o.value)
        access = got.pop("access")
        bits = ("local_write", "remote_write", "remote_read", "remote_atomic")
        assert sum(access[bit] << index for index, bit in enumerate(bits)) == values.pop("access")
        assert got == values
        assert int(dut.region_write_index_o.value) == 777
        await registers.pulse("region_write_ready_i")
        assert not await registers.busy("region")


@cocotb.test()
async def controls_and_waits_for_the_answer(dut):
    registers = Registers(dut, 6)
    await registers.ready()
    await registers.write("control.argument", 0xABCDEF)
    await registers.write("control.command", GO | constant("ControlSend") << 16 | 300)
    assert unpack("control_t", dut.control_o.value) == dict(
        operation=constant("ControlSend"), qp=300, argument=0xABCDEF
    )
    assert int(dut.control_valid_o.value)
    await registers.pulse("control_ready_i")
    assert not int(dut.control_valid_o.value) and await registers.busy("control")
    # A second command while the first is in progress is ignored.
    await registers.write("control.command", GO | 301)
    assert not int(dut.control_valid_o.value)
    await registers.pulse("control_done_i")
    assert not await registers.busy("control")
    await registers.write("control.command", GO | 302)
    assert int(dut.control_valid_o.value)


@cocotb.test()
async def enters_neighbours_and_sockets(dut):
    registers = Registers(dut, 7)
    await registers.ready()
    await registers.write("neighbour.address", 0x0A000009)
    await registers.write("neighbour.mac_low", 0x11223344)
    await registers.write("neighbour.mac_high", GO | 0x0200)
    assert int(dut.neighbour_valid_o.value)
    assert (int(dut.neighbour_address_o.value), int(dut.neighbour_mac_o.value)) == (0x0A000009, 0x020011223344)
    await registers.pulse("neighbour_ready_i")
    assert not await registers.busy("neighbour")
    for refused in (1, 0):
        await registers.write("socket", GO | 1 << 28 | 5 << 24 | 130 << 16 | 4793)
        assert unpack("socket_entry_t", dut.socket_o.value) == dict(valid=1, port=4793, slot=5, socket=130)
        dut.socket_refused_i.value = refused
        # The table answers in the cycle in which it accepts.
        dut.socket_done_i.value = 1
        await registers.pulse("socket_ready_i")
        dut.socket_done_i.value = 0
        assert await registers.read("status") == 1 | refused * REFUSED


@cocotb.test()
async def says_where_the_engine_has_its_answers(dut):
    registers = Registers(dut, 9)
    await registers.ready()
    await registers.write("engine.reply_lkey", 0x12345678)
    await registers.write("engine.reply_base_low", 0x9ABCDE38)
    await registers.write("engine.reply_base_high", 0x7654)
    engine = unpack("engine_registers_t", dut.engine_o.value)
    assert (engine["reply_lkey"], engine["reply_base"]) == (0x12345678, 0x76549ABCDE38)


@cocotb.test()
async def reads_counters_and_queue_pairs(dut):
    registers = Registers(dut, 8)
    await registers.ready()
    await registers.write("counter.command", GO | 42)
    assert int(dut.counter_valid_o.value) and int(dut.counter_index_o.value) == 42
    await registers.pulse("counter_ready_i")
    assert await registers.busy("counter")
    dut.counter_value_i.value = 0x1122334455667788
    await registers.pulse("counter_done_i")
    dut.counter_value_i.value = 0
    assert not await registers.busy("counter")
    assert (await registers.read("counter.low"), await registers.read("counter.high")) == (0x55667788, 0x11223344)
    await registers.write("query.command", GO | 99)
    assert int(dut.query_valid_o.value) and int(dut.query_qp_o.value) == 99
    await registers.pulse("query_ready_i")
    words = [registers.chance.getrandbits(32) for _ in range(WORDS)]
    dut.query_state_i.value = sum(word << 32 * index for index, word in enumerate(words))
    await registers.pulse("query_done_i")
    dut.query_state_i.value = 0
    assert not await registers.busy("query")
    assert [await registers.read(f"query.state[{index}]") for index in range(WORDS)] == words


@cocotb.test()
async def queues_have_their_registers(dut):
    registers = Registers(dut, 9)
    await registers.ready()
    values = {
        "queues.control": 1 | 9 << 8 | 4 << 16,
        "queues.post_base_low": 0x1234_5640,
        "queues.post_base_high": 0x789A,
        "queues.completion_base_low": 0x4321_0980,
        "queues.completion_base_high": 0xBCDE,
        "queues.post_produced": 0xF00D,
        "queues.completion_consumed": 0xCAFE,
    }
    for register, value in values.items():
        assert await registers.write(register, value) == 0
        assert await registers.read(register) == value
    assert unpack("queue_registers_t", dut.queues_o.value) == {
        "enable": 1,
        "interrupt_enable": 0,
        "post_size": 9,
        "completion_size": 4,
        "post_base": 0x789A_1234_5640,
        "completion_base": 0xBCDE_4321_0980,
        "post_produced": 0xF00D,
        "completion_consumed": 0xCAFE,
    }
    readings = dict(running=1, overrun=0, fault=1, post_consumed=0x1001, completion_produced=0x2002)
    dut.queues_i.value = pack("queue_readings_t", **readings)
    assert await registers.read("queues.status") == 0b101
    assert await registers.read("queues.post_consumed") == 0x1001
    assert await registers.read("queues.completion_produced") == 0x2002


@cocotb.test()
async def services_have_their_registers(dut):
    registers = Registers(dut, 10)
    await registers.ready()
    written = []

    async def watch():
        while True:
            await ReadOnly()
            command = SERVICE_TYPES.unpack("service_registers_t", dut.services_o.value)
            if command["valid"]:
                written.append((command["index"], command["data"]))
            await FallingEdge(dut.clk_i)

    cocotb.start_soon(watch())
    for index, data in ((4, 0), (8, 0x1234_5678), (3, 0xFFFF_FFFF)):
        assert await registers.write("services.data", data) == 0
        assert await registers.write("services.command", GO | index) == 0
    await registers.cycles(4)
    assert written == [(4, 0), (8, 0x1234_5678), (3, 0xFFFF_FFFF)]
    for present, busy in ((1, 0), (0, 1)):
        dut.services_i.value = SERVICE_TYPES.pack("service_readings_t", present=present, busy=busy, state=0x1122_3344_5566_7788)
        assert await registers.read("services.status") == present << 1 | busy
        assert await registers.read("services.state_low") == 0x5566_7788
        assert await registers.read("services.state_high") == 0x1122_3344


def test_register_block():
    generated = ["nic/generated/weft_registers_pkg.sv", "nic/generated/weft_registers.sv"]
    bench.run(
        "register_block",
        [*SERVICE_SOURCES, "engines/engines_pkg.sv", *generated, "nic/register_block.sv"],
        __file__,
        {"QueryWords": WORDS, "Counters": COUNTERS},
    )
