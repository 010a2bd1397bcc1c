"""psp_seal and psp_open: frames equal the cryptography library's byte for byte, and frames that must be refused
are."""

import os
import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly

import bench
import gcm
import psp_frames as frames
from streams import beats, packets

LATENCY = {14: {"psp_seal": 22, "psp_open": 18}, 10: {"psp_seal": 18, "psp_open": 14}}


class Psp:
    """The device under test, its associations, and its inputs."""

    def __init__(self, dut, seed):
        self.dut, self.chance = dut, random.Random(seed)
        self.key_bytes = 4 * (int(dut.Rounds.value) - 6)
        self.events = {"opened": 0, "sealed": 0, "refused": 0}
        self.keys = {}

    async def start(self):
        dut = self.dut
        for handle in dut:
            if handle._name.endswith("_i") and handle._name != "clk_i":
                handle.value = 0
        dut.port_i.value = frames.PSP
        cocotb.start_soon(Clock(dut.clk_i, 4, unit="ns").start())
        for _ in range(3):
            await FallingEdge(dut.clk_i)
        dut.rst_ni.value = 1

    async def install(self, index, peer, spi):
        """Writes a fresh key for an association: the round keys of AES and the powers of the hash key."""
        dut, key = self.dut, self.chance.randbytes(self.key_bytes)
        places = list(enumerate(gcm.round_keys(key))) + list(enumerate(gcm.powers(key), 16))
        await FallingEdge(dut.clk_i)
        for place, value in places:
            dut.key_write_i.value, dut.key_index_i.value = 1, index
            dut.key_place_i.value, dut.key_i.value = place, gcm.number(value)
            await FallingEdge(dut.clk_i)
        dut.key_write_i.value = 0
        dut.configure_i.value, dut.configure_index_i.value, dut.configure_enable_i.value = 1, index, 1
        dut.configure_peer_i.value = int.from_bytes(frames.address(peer), "big")
        dut.configure_spi_i.value = spi
        await FallingEdge(dut.clk_i)
        dut.configure_i.value = 0
        self.keys[spi] = key
        return key

    async def seal(self, given, rate=1.0, stalls=0.0):
        """Feeds frames and returns the output frames, and the cycles of the first input beat, the first output
        beat and the last."""
        dut, words = self.dut, [beat for frame in given for beat in beats(frame, self.chance)]
        taken, entered, left, quiet, cycle = [], None, [], 0, 0
        while words or quiet < 60:
            await FallingEdge(dut.clk_i)
            valid = bool(words) and (bool(dut.in_valid_i.value) and not self.accepted or self.chance.random() < rate)
            ready = self.chance.random() >= stalls
            dut.in_valid_i.value, dut.out_ready_i.value = int(valid), int(ready)
            if valid:
                dut.in_i.value = words[0]
            await ReadOnly()
            self.accepted = valid and bool(int(dut.in_ready_o.value))
            if self.accepted:
                entered = cycle if entered is None else entered
                words.pop(0)
            self.events["sealed"] += int(dut.sealed_o.value)
            self.events["refused"] += int(dut.refused_o.value)
            quiet += 1
            if int(dut.out_valid_o.value) and ready:
                taken.append(int(dut.out_o.value))
                left.append(cycle)
            if int(dut.out_valid_o.value) or valid:
                quiet = 0
            cycle += 1
        return packets(taken), entered, left

    accepted = True

    async def open(self, given, rate=1.0, errors=()):
        """Feeds frames and returns the output frames, None for a frame that is marked as an error."""
        dut = self.dut
        words = []
        for number, frame in enumerate(given):
            for beat in beats(frame, self.chance):
                words.append((beat, number in errors))
        out, data, entered, left, quiet, cycle = [], b"", None, None, 0, 0
        while words or quiet < 40:
            await FallingEdge(dut.clk_i)
            valid = bool(words) and self.chance.random() < rate
            dut.rx_valid_i.value = int(valid)
            quiet = 0 if valid else quiet + 1
            if valid:
                beat, error = words.pop(0)
                last, empty = beat >> 518, beat >> 512 & 63
                dut.rx_data_i.value = beat & (1 << 512) - 1
                dut.rx_keep_i.value = (1 << 64 - empty) - 1
                dut.rx_last_i.value, dut.rx_error_i.value = last, int(bool(last) and error)
                entered = cycle if entered is None else entered
            await ReadOnly()
            self.events["opened"] += int(dut.opened_o.value)
            self.events["refused"] += int(dut.refused_o.value)
            if int(dut.out_valid_o.value):
                left = cycle if left is None else left
                keep = int(dut.out_keep_o.value)
                data += int(dut.out_data_o.value).to_bytes(64, "little")[: keep.bit_length()]
                if int(dut.out_last_o.value):
                    out.append(None if int(dut.out_error_o.value) else data)
                    data = b""
            cycle += 1
        assert data == b"", "a frame without an end"
        return out, entered, left


SIZES = [*range(12, 340), 1_024 + 16, 4_096 + 16, 4_112 + 17]


async def seals(dut):
    psp = Psp(dut, 1)
    await psp.start()
    spis = {}
    for index, last in enumerate([2, 3, 9]):
        peer = f"10.0.0.{last}"
        spis[peer] = 0x80000100 + index
        await psp.install(5 * index, peer, spis[peer])
    counters = dict.fromkeys(spis, 0)
    for rate, stalls in [(1.0, 0.0), (0.7, 0.0), (1.0, 0.3), (0.5, 0.5)]:
        given, expected, refused = [], [], 0
        sizes = SIZES[:]
        psp.chance.shuffle(sizes)
        for number, size in enumerate(sizes):
            peer = psp.chance.choice([*spis, "10.0.0.77"])
            port = psp.chance.choice([frames.ROCE, frames.DATAGRAM, 53])
            plain = frames.frame(psp.chance, size, port, destination=peer)
            # With Ethernet's padding.
            given.append(plain + bytes(max(0, 60 - len(plain))))
            if port == 53:
                expected.append(given[-1])
            elif peer in spis:
                expected.append(frames.sealed(psp.keys[spis[peer]], spis[peer], counters[peer], plain))
                counters[peer] += 1
            else:
                refused += 1
        before = psp.events["refused"]
        found, _, _ = await psp.seal(given, rate, stalls)
        assert len(found) == len(expected)
        for one, other in zip(found, expected):
            assert one == other, f"{len(one)} bytes"
        assert psp.events["refused"] - before == refused
    # A key whose frames are used up; sealing continues with the next key.
    await psp.install(0, "10.0.0.2", 0x42)
    assert int(dut.FramesPerKey.value) == 10
    many = [frames.frame(psp.chance, 20) for _ in range(1_030)]
    found, _, _ = await psp.seal(many)
    assert len(found) == 1_024
    assert found[-1] == frames.sealed(psp.keys[0x42], 0x42, 1_023, many[1_023])


async def seals_at_the_rate_of_the_wire(dut):
    psp = Psp(dut, 2)
    await psp.start()
    await psp.install(1, "10.0.0.2", 7)
    for size in [16, 28, 64 + 32, 100, 150, 1_024 + 16, 4_096 + 16]:
        plain = [frames.frame(psp.chance, size) for _ in range(20)]
        found, entered, left = await psp.seal(plain)
        assert len(found) == 20
        assert left[0] - entered == LATENCY[int(dut.Rounds.value)]["psp_seal"]
        assert left[-1] - left[0] + 1 == len(left), "a gap between beats"


async def opens(dut):
    psp = Psp(dut, 3)
    await psp.start()
    await psp.install(5, frames.ADDRESSES[0], 0x105)
    await psp.install(31, "10.0.0.3", 0x1F)
    counter = 1
    for rate in (1.0, 0.6):
        given, expected = [], []
        sizes = SIZES[:]
        psp.chance.shuffle(sizes)
        for size in sizes:
            source = psp.chance.choice([frames.ADDRESSES[0], "10.0.0.3"])
            spi = 0x105 if source == frames.ADDRESSES[0] else 0x1F
            port = psp.chance.choice([frames.ROCE, frames.DATAGRAM, 53])
            plain = frames.frame(psp.chance, size, port, source=source)
            expected.append(plain)
            counter += psp.chance.randrange(1, 300)
            given.append(plain if port == 53 else frames.sealed(psp.keys[spi], spi, counter, plain))
        found, entered, left = await psp.open(given, rate)
        assert len(found) == len(expected)
        for one, other in zip(found, expected):
            assert one == other, f"{len(other)} bytes"
        if rate == 1.0:
            assert left - entered in (LATENCY[int(dut.Rounds.value)]["psp_open"], 1 + len(beats(given[0])))
    one = frames.frame(psp.chance, 200)
    _, entered, left = await psp.open([frames.sealed(psp.keys[0x105], 0x105, counter + 1, one)])
    assert left - entered == LATENCY[int(dut.Rounds.value)]["psp_open"]


async def accepts_nothing_else(dut):
    psp = Psp(dut, 4)
    await psp.start()
    key = await psp.install(5, frames.ADDRESSES[0], 0x105)
    given, expected = [], []
    for size in (24, 57, 64, 90, 135):
        plain = frames.frame(psp.chance, size)
        good = frames.sealed(key, 0x105, 1_000 + size, plain)
        # Changes any byte of PSP header, text or tag; the headers in front are not authenticated.
        for at in range(42, len(good)):
            changed = bytearray(good)
            changed[at] ^= 1 << psp.chance.randrange(8)
            given.append(bytes(changed))
        given += [good[:length] for length in range(60, len(good))]
        # Longer than its length field says, by more than a beat.
        given.append(good + bytes(130))
        given.append(plain)
        given.append(frames.frame(psp.chance, size, frames.DATAGRAM))
        given.append(frames.sealed(key, 0x125, 1_000 + size, plain))
        given.append(frames.sealed(key, 0x105, 1, frames.frame(psp.chance, size, source="10.0.0.9")))
        expected += [None] * (len(given) - len(expected))
        given.append(good)
        expected.append(plain)
        given.append(good)
        expected.append(None)
    found, _, _ = await psp.open(given, 0.9)
    assert found == expected
    # A frame with a wrong check sequence is dropped, and its counter does not count as received.
    plain = frames.frame(psp.chance, 70)
    good = frames.sealed(key, 0x105, 5_000, plain)
    found, _, _ = await psp.open([good, good, good], errors={0})
    assert found == [None, plain, None]


async def every_counter_once(dut):
    psp = Psp(dut, 5)
    await psp.start()
    key = await psp.install(5, frames.ADDRESSES[0], 0x105)
    plain, seen, highest, at = frames.frame(psp.chance, 16), set(), 0, 0
    given, expected = [], []
    for _ in range(1_500):
        at += psp.chance.choice([0, 1, 1, 2, 60, 127, 128, 129, 500])
        counter = max(0, at - psp.chance.choice([0, 0, 1, 3, 100, 126, 127, 128, 129, 200]))
        allowed = counter not in seen and (counter > highest or highest - counter < 128)
        given.append(frames.sealed(key, 0x105, counter, plain))
        expected.append(plain if allowed else None)
        if allowed:
            seen.add(counter)
            highest = max(highest, counter)
    found, _, _ = await psp.open(given)
    assert found == expected
    assert 300 < sum(one is not None for one in found) < 1_400
    # Counters far ahead, and at the end of their range.
    end = (1 << 64) - 1
    far = [frames.sealed(key, 0x105, counter, plain) for counter in (1 << 40, end, 1 << 40, end - 128, end - 127, end)]
    found, _, _ = await psp.open(far)
    assert [one is not None for one in found] == [True, True, False, False, True, False]


TESTS = {
    "psp_seal": [seals, seals_at_the_rate_of_the_wire],
    "psp_open": [opens, accepts_nothing_else, every_counter_once],
}

for test in TESTS.get(os.environ.get("TOPLEVEL") or os.environ.get("COCOTB_TOPLEVEL", ""), []):
    globals()[f"test_of_{test.__name__}"] = cocotb.test(name=test.__name__)(test)

NAMES = ["aes_pkg", "psp_pkg", "aes_pipeline", "carryless_multiplier", "ghash", "psp_crypt", "psp_open", "psp_seal"]
SOURCES = ["weft_pkg.sv", "stream/ram.sv", "stream/fifo.sv", *(f"services/{name}.sv" for name in [*NAMES, "psp_slots"])]


def test_seal_256():
    bench.run("psp_seal", SOURCES, __file__, parameters={"Rounds": 14, "Leaf": 128, "FramesPerKey": 10})


def test_seal_128():
    bench.run("psp_seal", SOURCES, __file__, parameters={"Rounds": 10, "Leaf": 128, "FramesPerKey": 10})


def test_open_256():
    bench.run("psp_open", SOURCES, __file__, parameters={"Rounds": 14, "Leaf": 128})


def test_open_128():
    bench.run("psp_open", SOURCES, __file__, parameters={"Rounds": 10, "Leaf": 128})
