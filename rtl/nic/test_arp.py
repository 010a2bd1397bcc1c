"""arp: replies to requests, learns neighbours as the soft NIC does, requests at most once a millisecond, and ages
entries."""

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly
from scapy.layers.l2 import ARP, Ether

import bench
from streams import ADDRESS, HARDWARE, PEER, PEER_HARDWARE, Bench, beats, number, packets

INTERVAL = 100
ENTRIES = 64


class Neighbours(Bench):
    async def ready(self, age=0):
        await self.start(
            clear=ENTRIES // 4 + 2, hardware_i=number(HARDWARE), address_i=number(ADDRESS), age_limit_i=age
        )
        self.frames = self.take("out", ["_o"])

    async def lookup(self, address):
        await self.send("lookup", [{"_i": number(address)}])
        self.dut.result_ready_i.value = 1
        await ReadOnly()
        while not int(self.dut.result_valid_o.value):
            await FallingEdge(self.dut.clk_i)
            await ReadOnly()
        hit, mac = int(self.dut.result_hit_o.value), int(self.dut.result_mac_o.value)
        await FallingEdge(self.dut.clk_i)
        self.dut.result_ready_i.value = 0
        return mac if hit else None

    async def frame(self, arp, destination="ff:ff:ff:ff:ff:ff"):
        frame = bytes(Ether(dst=destination, src=arp.hwsrc) / arp)
        await self.send("frame", [{"_i": beat} for beat in beats(frame.ljust(60, b"\0"))])

    async def sent(self):
        """Frames sent since the last call."""
        await self.idle()
        out = [Ether(frame) for frame in packets(beat for (beat,) in self.frames)]
        self.frames.clear()
        return out


def request(sender=PEER, hardware=PEER_HARDWARE, target=ADDRESS):
    return ARP(op="who-has", hwsrc=hardware, psrc=sender, hwdst="00:00:00:00:00:00", pdst=target)


def reply(sender=PEER, hardware=PEER_HARDWARE, target=ADDRESS):
    return ARP(op="is-at", hwsrc=hardware, psrc=sender, hwdst=HARDWARE, pdst=target)


@cocotb.test()
async def answers_and_learns_who_asks(dut):
    table = Neighbours(dut, 1)
    await table.ready()
    await table.frame(request())
    (answer,) = await table.sent()
    expected = Ether(dst=PEER_HARDWARE, src=HARDWARE) / ARP(
        op="is-at", hwsrc=HARDWARE, psrc=ADDRESS, hwdst=PEER_HARDWARE, pdst=PEER
    )
    assert bytes(answer) == bytes(expected).ljust(60, b"\0")
    assert await table.lookup(PEER) == number(PEER_HARDWARE)
    assert await table.sent() == []
    assert table.events == {"arp_replies": 1, "arp_requests": 0}


@cocotb.test()
async def asks_once_then_waits_then_knows(dut):
    table = Neighbours(dut, 2)
    await table.ready()
    assert await table.lookup(PEER) is None
    (question,) = await table.sent()
    expected = Ether(dst="ff:ff:ff:ff:ff:ff", src=HARDWARE) / ARP(
        op="who-has", hwsrc=HARDWARE, psrc=ADDRESS, hwdst="00:00:00:00:00:00", pdst=PEER
    )
    assert bytes(question) == bytes(expected).ljust(60, b"\0")
    assert await table.lookup(PEER) is None
    assert await table.sent() == []
    await table.cycles(INTERVAL)
    assert await table.lookup(PEER) is None
    assert len(await table.sent()) == 1
    await table.frame(reply())
    await table.idle()
    assert await table.lookup(PEER) == number(PEER_HARDWARE)
    assert table.events == {"arp_replies": 0, "arp_requests": 2}


@cocotb.test()
async def learns_no_unsolicited_claim(dut):
    table = Neighbours(dut, 3)
    await table.ready()
    await table.frame(reply())
    await table.frame(request(target="10.0.0.9"))
    await table.frame(reply(target="10.0.0.9"))
    bad = request()
    bad.op = 3
    await table.frame(bad)
    bad = request()
    bad.hwtype = 6
    await table.frame(bad)
    assert await table.sent() == []
    assert await table.lookup(PEER) is None
    await table.frame(reply(hardware="02:00:00:00:00:aa"))
    await table.idle()
    assert await table.lookup(PEER) == number("02:00:00:00:00:aa")


@cocotb.test()
async def an_entry_by_hand_stays(dut):
    table = Neighbours(dut, 4)
    await table.ready(age=50)
    await table.send("entry", [{"_address_i": number(PEER), "_mac_i": 0x1234}])
    await table.idle()
    await table.frame(request())
    assert len(await table.sent()) == 1
    await table.cycles(200)
    assert await table.lookup(PEER) == 0x1234
    # Other neighbours of the same set do not replace it.
    for other in range(1, 12):
        await table.frame(request(sender=f"10.0.0.{2 + 16 * other}"))
    await table.idle()
    assert await table.lookup(PEER) == 0x1234


@cocotb.test()
async def forgets(dut):
    table = Neighbours(dut, 5)
    await table.ready(age=300)
    await table.frame(request())
    await table.sent()
    assert await table.lookup(PEER) == number(PEER_HARDWARE)
    await table.cycles(300)
    assert await table.lookup(PEER) is None
    assert len(await table.sent()) == 1


@cocotb.test()
async def a_full_set_gives_way_in_turn(dut):
    table = Neighbours(dut, 6)
    await table.ready()
    same = [f"10.{other}.0.2" for other in range(0, 96, 16)]
    sets = {(lambda a: (a ^ a >> 4 ^ a >> 16) % 16)(number(address)) for address in same}
    assert len(sets) == 1, "the test knows the hash"
    for address in same:
        await table.frame(request(sender=address))
    await table.idle()
    known = [await table.lookup(address) is not None for address in same[-4:]]
    assert all(known)
    assert await table.lookup(same[0]) is None


@cocotb.test()
async def under_load(dut):
    """Random frames, lookups and entries at once: a resolved address is never wrong."""
    table = Neighbours(dut, 7)
    await table.ready()
    table.rates["out"] = 0.4
    truth = {f"10.0.0.{last}": 0x020000000000 + last for last in range(2, 40)}
    mac = lambda value: ":".join(f"{value >> shift & 255:02x}" for shift in range(40, -8, -8))  # noqa: E731
    results = table.take("result", ["_hit_o", "_mac_o"], rate=0.5)
    asked = table.chance.choices(list(truth), k=400)

    async def speak():
        for sender, hardware in table.chance.choices(list(truth.items()), k=200):
            kind = table.chance.choice((request, reply))
            await table.frame(kind(sender=sender, hardware=mac(hardware)))
            await table.cycles(table.chance.randrange(20))

    speaker = cocotb.start_soon(speak())
    await table.send("lookup", [{"_i": number(address)} for address in asked], rate=0.3)
    await speaker
    await table.idle()
    assert len(results) == len(asked)
    hits = 0
    for address, (hit, found) in zip(asked, results):
        assert not hit or found == truth[address]
        hits += hit
    assert hits > 200
    assert len(table.frames) == table.events["arp_replies"] + table.events["arp_requests"]


def test_arp():
    bench.run(
        "arp",
        ["weft_pkg.sv", "stream/fifo.sv", "stream/ram.sv", "nic/arp.sv"],
        __file__,
        {"Entries": ENTRIES, "RequestInterval": INTERVAL},
    )
