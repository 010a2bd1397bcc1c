"""region_table: every rule of an access check, at its limits, and the cycle from which changes apply."""

import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly

import bench
from structs import constant, pack, unpack, width

REGIONS = constant("Regions")
PORTS = 3
REQUEST = width("access_request_t")
GRANT = width("access_grant_t")
GRANTED, UNKNOWN, DOMAIN, BOUNDS, FORBIDDEN = map(
    constant,
    ("AccessGranted", "AccessUnknownKey", "AccessWrongDomain", "AccessOutOfBounds", "AccessForbidden"),
)
LOCAL_WRITE, REMOTE_WRITE, REMOTE_READ, REMOTE_ATOMIC = 1, 2, 4, 8


class Table:
    """Drives the table and compares each answer, three cycles after its request, with a model."""

    def __init__(self, dut):
        self.dut = dut
        self.regions = [{"valid": 0}] * REGIONS
        self.due = []
        self.now = 0

    async def start(self):
        dut = self.dut
        cocotb.start_soon(Clock(dut.clk_i, 4, unit="ns").start())
        dut.rst_ni.value = 0
        dut.write_i.value = 0
        dut.permission_i.value = 0
        dut.request_valid_i.value = 0
        for _ in range(3):
            await FallingEdge(dut.clk_i)
        dut.rst_ni.value = 1
        while not int(dut.ready_o.value):
            assert not int(dut.write_ready_o.value)
            await FallingEdge(dut.clk_i)

    def verdict(self, request):
        region = self.regions[request["key"] % REGIONS]
        key = region.get("rkey" if request["remote"] else "lkey")
        if not region["valid"] or key != request["key"]:
            return UNKNOWN
        if region["domain"] != request["domain"]:
            return DOMAIN
        end = request["address"] + request["bytes"]
        inside = region["base"] <= request["address"] < 1 << 48 and end <= region["base"] + region["length"]
        if not inside:
            return BOUNDS
        return FORBIDDEN if request["needs"] & ~region["access"] else GRANTED

    async def cycle(self, requests=(), write=None, permission=None):
        """Runs one cycle. Returns whether the write was accepted."""
        dut = self.dut
        dut.write_i.value = int(write is not None)
        if write:
            dut.write_index_i.value = write[0]
            dut.write_data_i.value = pack("region_t", **write[1])
        dut.permission_i.value = int(permission is not None)
        if permission:
            dut.permission_index_i.value, dut.permission_access_i.value = permission
        valid, data = 0, 0
        for port, request in enumerate(requests):
            if request:
                valid |= 1 << port
                data |= pack("access_request_t", **request) << REQUEST * port
                region = self.regions[request["key"] % REGIONS]
                self.due.append((self.now + 3, port, self.verdict(request), region))
        dut.request_valid_i.value = valid
        dut.request_i.value = data
        await ReadOnly()
        accepted = write is not None and bool(int(dut.write_ready_o.value))
        assert accepted == (write is not None and permission is None)
        grants = int(dut.grant_o.value)
        while self.due and self.due[0][0] == self.now:
            _, port, verdict, region = self.due.pop(0)
            grant = unpack("access_grant_t", grants >> GRANT * port & (1 << GRANT) - 1)
            assert grant["verdict"] == verdict
            if verdict == GRANTED:
                for field in ("target", "write_through", "rpc", "slot"):
                    assert grant[field] == region[field]
        await FallingEdge(dut.clk_i)
        self.now += 1
        if accepted:
            self.regions[write[0]] = write[1]
        if permission:
            self.regions[permission[0]] = {**self.regions[permission[0]], "access": permission[1]}
        return accepted

    async def expect(self, verdict, request, port=0):
        assert self.verdict(request) == verdict
        await self.cycle([None] * port + [request])
        for _ in range(3):
            await self.cycle()
        assert not self.due


def region(index, **fields):
    return {
        "valid": 1,
        "lkey": 0x1234 * REGIONS + index,
        "rkey": 0x5678 * REGIONS + index,
        "domain": 3,
        "base": 0x1000,
        "length": 0x100,
        "access": REMOTE_WRITE,
        "target": 2,
        "write_through": 1,
        "rpc": 1,
        "slot": 9,
        **fields,
    }


def request(of, **fields):
    return {
        "remote": 1,
        "key": of["rkey"],
        "domain": of["domain"],
        "address": of["base"],
        "bytes": of["length"],
        "needs": REMOTE_WRITE,
        **fields,
    }


@cocotb.test()
async def key_domain_bounds_and_permission_are_all_checked(dut):
    table = Table(dut)
    await table.start()
    index = 777
    it = region(index)
    await table.expect(UNKNOWN, request(it))
    await table.cycle(write=(index, it))
    for port in range(PORTS):
        await table.expect(GRANTED, request(it), port)
        await table.expect(UNKNOWN, request(it, remote=0), port)
        await table.expect(GRANTED, request(it, remote=0, key=it["lkey"]), port)
        await table.expect(UNKNOWN, request(it, key=it["rkey"] ^ REGIONS), port)
        await table.expect(UNKNOWN, request(it, key=it["rkey"] ^ 1 << 31), port)
        await table.expect(UNKNOWN, request(it, key=it["rkey"] ^ 1), port)
        await table.expect(DOMAIN, request(it, domain=4), port)
        await table.expect(FORBIDDEN, request(it, needs=REMOTE_READ), port)
        await table.expect(FORBIDDEN, request(it, needs=REMOTE_READ | REMOTE_WRITE), port)
        # If several checks fail, the first one is reported.
        await table.expect(UNKNOWN, request(it, key=it["lkey"], domain=4, bytes=0x101, needs=15), port)
        await table.expect(DOMAIN, request(it, domain=4, bytes=0x101, needs=15), port)
        await table.expect(BOUNDS, request(it, bytes=0x101, needs=15), port)
    await table.cycle(write=(index, region(index, valid=0)))
    await table.expect(UNKNOWN, request(it))


@cocotb.test()
async def bounds_hold_to_the_byte_and_at_the_ends_of_the_address_space(dut):
    table = Table(dut)
    await table.start()
    it = region(1)
    await table.cycle(write=(1, it))
    for address, length, verdict in (
        (0x1000, 0x100, GRANTED),
        (0x10FF, 1, GRANTED),
        (0x10FF, 2, BOUNDS),
        (0x1100, 0, GRANTED),
        (0x1100, 1, BOUNDS),
        (0x1101, 0, BOUNDS),
        (0x0FFF, 2, BOUNDS),
        (0x0FFF, 0, BOUNDS),
        (0x1000, 0xFFFF_FFFF, BOUNDS),
        (0, 0, BOUNDS),
        (0xFFFF_FFFF_FFFF_FFFF, 2, BOUNDS),
        (0xFFFF_FFFF_FFFF_FFFF, 0x1101, BOUNDS),
        (0x1_0000_0000_1000, 1, BOUNDS),
        (0xFFFF_FFFF_FFFF, 2, BOUNDS),
    ):
        await table.expect(verdict, request(it, address=address, bytes=length))
    everything = region(2, base=0, length=1 << 48)
    await table.cycle(write=(2, everything))
    for address, length, verdict in (
        (0, 0xFFFF_FFFF, GRANTED),
        (0xFFFF_FFFF_FFFF, 1, GRANTED),
        (0xFFFF_FFFF_FFFF, 2, BOUNDS),
        (1 << 48, 1, BOUNDS),
        (1 << 63, 1, BOUNDS),
    ):
        await table.expect(verdict, request(everything, address=address, bytes=length))
    empty = region(3, length=0)
    await table.cycle(write=(3, empty))
    await table.expect(GRANTED, request(empty))
    await table.expect(BOUNDS, request(empty, bytes=1))


@cocotb.test()
async def a_change_of_permission_counts_from_the_next_cycle_on(dut):
    table = Table(dut)
    await table.start()
    it = region(5)
    other = region(6)
    await table.cycle(write=(5, it))
    await table.cycle(write=(6, other))
    same = [request(it)] * PORTS
    # Granted in the cycle of the change, and forbidden in the next, on every port; and the reverse.
    await table.cycle(same, permission=(5, REMOTE_READ))
    assert {verdict for _, _, verdict, _ in table.due} == {GRANTED}
    await table.cycle(same)
    assert {verdict for _, _, verdict, _ in table.due[-PORTS:]} == {FORBIDDEN}
    await table.cycle(same, permission=(5, REMOTE_WRITE))
    await table.cycle(same)
    # A write of a region waits for a change of access rights; it then sets its own rights.
    assert not await table.cycle(same, write=(5, region(5, access=REMOTE_READ)), permission=(6, 0))
    assert await table.cycle([request(other)] * PORTS, write=(5, region(5, access=REMOTE_READ)))
    await table.cycle(same)
    for _ in range(4):
        await table.cycle()


@cocotb.test()
async def a_reset_takes_all_regions_away(dut):
    table = Table(dut)
    await table.start()
    for index in (0, 1, REGIONS - 1):
        await table.cycle(write=(index, region(index)))
        await table.expect(GRANTED, request(region(index)))
    table.regions = [{"valid": 0}] * REGIONS
    await table.start()
    for index in (0, 1, REGIONS - 1):
        await table.expect(UNKNOWN, request(region(index)))


@cocotb.test()
async def any_mix_of_writes_changes_and_checks_agrees_with_the_model(dut):
    table = Table(dut)
    await table.start()
    chance = random.Random(3)
    places = [0, 1, 511, REGIONS - 1]

    def some_region(index):
        length = chance.choice((0, 1, 64, 0x1000, chance.getrandbits(47)))
        top = (1 << 48) - length
        return region(
            index,
            valid=int(chance.random() < 0.9),
            lkey=chance.randrange(3) * REGIONS + index,
            rkey=chance.randrange(3) * REGIONS + index,
            domain=chance.randrange(2),
            base=min(chance.choice((0, top, chance.randrange(top + 1))), (1 << 48) - 1),
            length=length,
            access=chance.getrandbits(4) | chance.getrandbits(4),
            target=chance.randrange(4),
            write_through=chance.getrandbits(1),
            rpc=chance.getrandbits(1),
            slot=chance.randrange(16),
        )

    def some_request():
        index = chance.choice(places)
        it = table.regions[index]
        remote = chance.getrandbits(1)
        key = it.get("rkey" if remote else "lkey", 0)
        length = chance.choice((0, 1, 8, 64, 0x1000, 0xFFFF_FFFF))
        base = it.get("base", 0)
        end = base + it.get("length", 0)
        address = chance.choice((base, end - length, end, end - 1, chance.getrandbits(64)))
        address += chance.choice((0, 0, 0, 1, -1))
        return {
            "remote": remote,
            "key": key if chance.random() < 0.9 else chance.randrange(3) * REGIONS + index,
            "domain": it.get("domain", 0) ^ (chance.random() < 0.1),
            "address": address % (1 << 64),
            "bytes": length,
            "needs": 1 << chance.randrange(4) if chance.random() < 0.9 else chance.getrandbits(4),
        }

    verdicts = {}
    for _ in range(3_000):
        requests = [some_request() if chance.random() < 0.8 else None for _ in range(PORTS)]
        for asked in filter(None, requests):
            verdict = table.verdict(asked)
            verdicts[verdict] = verdicts.get(verdict, 0) + 1
        write = permission = None
        if chance.random() < 0.1:
            index = chance.choice(places)
            write = index, some_region(index)
        if chance.random() < 0.2:
            permission = chance.choice(places), chance.getrandbits(4)
        await table.cycle(requests, write, permission)
    for _ in range(4):
        await table.cycle()
    assert not table.due
    assert all(verdicts.get(verdict, 0) > 100 for verdict in range(5)), verdicts


def test_region_table():
    bench.run(
        "region_table",
        ["weft_pkg.sv", "stream/ram.sv", "rdma/region_check.sv", "rdma/region_table.sv"],
        __file__,
    )
