"""Drives and records streams of beats in block tests."""

import collections
import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly

from structs import unpack

HARDWARE = "02:00:00:00:00:01"
ADDRESS = "10.0.0.1"
PEER_HARDWARE = "02:00:00:00:00:fe"
PEER = "10.0.0.2"


def number(address):
    """The integer value of an IP or MAC address such as "10.0.0.1" or "02:00:00:00:00:01"."""
    if ":" in address:
        return int(address.replace(":", ""), 16)
    return int.from_bytes(bytes(map(int, address.split("."))), "big")


def beats(data, junk=None):
    """The beats (beat_t) of a frame; `junk` fills the unused bytes."""
    out = []
    for at in range(0, len(data), 64):
        part = data[at : at + 64]
        last = at + 64 >= len(data)
        empty = 64 - len(part)
        filled = part + (junk.randbytes(empty) if junk else bytes(empty))
        out.append(last << 518 | empty << 512 | int.from_bytes(filled, "little"))
    return out


def packets(taken):
    """The bytes of each packet in a list of beat_t; an unfinished packet is omitted."""
    out, data = [], b""
    for beat in taken:
        data += (beat & (1 << 512) - 1).to_bytes(64, "little")
        if beat >> 518:
            out.append(data[: len(data) - (beat >> 512 & 63)])
            data = b""
    return out


class Bench:
    """A device under test with its clock, and the streams that the test drives and records."""

    def __init__(self, dut, seed):
        self.dut = dut
        self.chance = random.Random(seed)
        self.events = collections.Counter()
        self.now = 1_000

    async def start(self, clear=0, **inputs):
        """Resets the device with all valid and ready inputs at 0, sets `inputs`, and waits `clear` cycles."""
        dut = self.dut
        for handle in dut:
            if handle._name.endswith(("_valid_i", "_ready_i")):
                handle.value = 0
        for name, value in inputs.items():
            getattr(dut, name).value = value
        cocotb.start_soon(Clock(dut.clk_i, 4, unit="ns").start())
        dut.rst_ni.value = 0
        for _ in range(3):
            await FallingEdge(dut.clk_i)
        dut.rst_ni.value = 1
        if hasattr(dut, "now_i"):
            cocotb.start_soon(self._time())
        if hasattr(dut, "events_o") and not isinstance(dut.events_o, int):
            cocotb.start_soon(self._tally())
        await self.cycles(clear + 1)

    async def cycles(self, count):
        for _ in range(count):
            await FallingEdge(self.dut.clk_i)

    async def idle(self, limit=5_000):
        """Waits until the device reports that it is idle for several cycles."""
        calm = 0
        for _ in range(limit):
            await FallingEdge(self.dut.clk_i)
            await ReadOnly()
            calm = calm + 1 if int(self.dut.idle_o.value) else 0
            if calm == 4:
                await FallingEdge(self.dut.clk_i)
                return
        raise AssertionError(f"not idle after {limit} cycles")

    async def _time(self):
        while True:
            self.dut.now_i.value = self.now
            await FallingEdge(self.dut.clk_i)
            self.now += 1

    async def _tally(self):
        struct = f"{self.dut._name}_events_t"
        while True:
            await FallingEdge(self.dut.clk_i)
            await ReadOnly()
            for name, value in unpack(struct, self.dut.events_o.value).items():
                self.events[name] += value

    async def send(self, prefix, items, rate=1.0):
        """Offers each item, {suffix of a signal: value}, in order, with random pauses."""
        valid = getattr(self.dut, f"{prefix}_valid_i")
        ready = getattr(self.dut, f"{prefix}_ready_o")
        for item in items:
            while self.chance.random() >= rate:
                await FallingEdge(self.dut.clk_i)
            valid.value = 1
            for suffix, value in item.items():
                getattr(self.dut, f"{prefix}{suffix}").value = value
            await ReadOnly()
            while not int(ready.value):
                await FallingEdge(self.dut.clk_i)
                await ReadOnly()
            await FallingEdge(self.dut.clk_i)
            valid.value = 0

    def take(self, prefix, suffixes, rate=1.0):
        """Records a stream. Returns a list that fills with tuples of the signals with these suffixes."""
        taken = []
        self.rates = getattr(self, "rates", {})
        self.rates[prefix] = rate
        cocotb.start_soon(self._take(prefix, suffixes, taken))
        return taken

    async def _take(self, prefix, suffixes, taken):
        valid = getattr(self.dut, f"{prefix}_valid_o")
        ready = getattr(self.dut, f"{prefix}_ready_i")
        signals = [getattr(self.dut, f"{prefix}{suffix}") for suffix in suffixes]
        held = None
        while True:
            ready.value = int(self.chance.random() < self.rates[prefix])
            await ReadOnly()
            offered = tuple(int(signal.value) for signal in signals) if int(valid.value) else None
            assert held is None or offered == held, f"{prefix} took back what it had offered"
            if offered is not None and int(ready.value):
                taken.append(offered)
                held = None
            else:
                held = offered
            await FallingEdge(self.dut.clk_i)
