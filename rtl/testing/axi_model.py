"""An AXI4 slave in Python that makes use of all the timing freedom of the protocol."""

from collections import deque

from structs import constant, unpack, width

BEAT_BYTES = constant("BeatBytes")
BEAT_MASK = (1 << 8 * BEAT_BYTES) - 1
DATA_BITS = 8 * BEAT_BYTES
OKAY, SLAVE_ERROR = 0, 2


class AxiSlave:
    """Answers in order after a random delay. Written data becomes visible only when the write is answered. A read
    returns the contents of memory at the time when its address was accepted."""

    def __init__(self, dut, prefix, size, chance, clock, latency=(1, 40), ready=0.7):
        self.memory = bytearray(size)
        self.chance = chance
        self.clock = clock
        self.latency = latency
        self.ready = ready
        # Addresses of 64-byte words whose accesses are answered with an error.
        self.faulty = set()
        port = lambda name: getattr(dut, f"{prefix}_{name}" if prefix else name)  # noqa: E731
        self.aw_valid, self.aw_ready, self.aw = port("aw_valid_o"), port("aw_ready_i"), port("aw_o")
        self.w_valid, self.w_ready, self.w = port("w_valid_o"), port("w_ready_i"), port("w_o")
        self.b_valid, self.b_response = port("b_valid_i"), port("b_response_i")
        self.ar_valid, self.ar_ready, self.ar = port("ar_valid_o"), port("ar_ready_i"), port("ar_o")
        self.r_valid, self.r_ready, self.r = port("r_valid_i"), port("r_ready_o"), port("r_i")
        self.addresses = deque()  # addresses of bursts whose data has not arrived
        self.beats = deque()  # beats that have arrived, of all bursts
        self.unanswered = deque()  # (cycle, address, beats)
        self.reads = deque()  # (cycle, beats)
        self.offered = {}
        self.bursts = {"aw": 0, "ar": 0}
        self.stalled = 0
        self.most_under_way = 0
        for handle in (self.aw_ready, self.w_ready, self.b_valid, self.b_response, self.ar_ready, self.r_valid):
            handle.value = 0

    def delay(self):
        return self.clock.now + self.chance.randint(*self.latency)

    def drive(self):
        likely = lambda: int(self.chance.random() < self.ready)  # noqa: E731
        self.aw_ready.value = likely()
        self.w_ready.value = likely()
        self.ar_ready.value = likely()
        self.answering = bool(self.unanswered) and self.unanswered[0][0] <= self.clock.now
        self.b_valid.value = int(self.answering)
        self.b_response.value = SLAVE_ERROR if self.answering and self.unanswered[0][1] in self.faulty else OKAY
        self.reading = bool(self.reads) and self.reads[0][0] <= self.clock.now and (
            self.ready == 1 or self.chance.random() < 0.9)
        self.r_valid.value = int(self.reading)
        if self.reading:
            beats = self.reads[0][1]
            self.r.value = int(len(beats) == 1) << DATA_BITS + 2 | beats[0]

    def check_stable(self, name, valid, ready, payload):
        if name in self.offered:
            assert valid and payload == self.offered[name], f"{name} changed before it was taken"
        self.offered.pop(name, None)
        if valid and not ready:
            self.offered[name] = payload

    def burst(self, name, payload):
        address = unpack("axi_address_t", payload)
        first, beats = address["address"], address["length"] + 1
        assert first % BEAT_BYTES == 0
        assert first // 4096 == (first + beats * BEAT_BYTES - 1) // 4096, "a burst crosses 4 KiB"
        self.bursts[name] += 1
        return first, beats

    def word(self, address):
        """Response and data of a read beat."""
        if address in self.faulty:
            return SLAVE_ERROR << DATA_BITS | self.chance.getrandbits(DATA_BITS)
        return int.from_bytes(self.memory[address:address + BEAT_BYTES], "little")

    def sample(self):
        for name, valid, ready, payload in (
            ("aw", self.aw_valid, self.aw_ready, self.aw),
            ("w", self.w_valid, self.w_ready, self.w),
            ("ar", self.ar_valid, self.ar_ready, self.ar),
        ):
            is_valid, is_ready = int(valid.value), int(ready.value)
            value = int(payload.value) if is_valid else 0
            self.check_stable(name, is_valid, is_ready, value)
            if not (is_valid and is_ready):
                continue
            if name == "aw":
                self.addresses.append(self.burst(name, value))
            elif name == "w":
                self.beats.append(value)
            else:
                first, beats = self.burst(name, value)
                words = [self.word(first + BEAT_BYTES * index) for index in range(beats)]
                self.reads.append((self.delay(), words))
                self.most_under_way = max(self.most_under_way, len(self.reads))
        if self.answering:
            _, first, beats = self.unanswered.popleft()
            if first in self.faulty:
                beats = []
            for index, beat in enumerate(beats):
                strobe = beat >> DATA_BITS & (1 << BEAT_BYTES) - 1
                data = (beat & BEAT_MASK).to_bytes(BEAT_BYTES, "little")
                for i in range(BEAT_BYTES):
                    if strobe >> i & 1:
                        self.memory[first + BEAT_BYTES * index + i] = data[i]
        if self.reading:
            if int(self.r_ready.value):
                self.reads[0][1].pop(0)
                if not self.reads[0][1]:
                    self.reads.popleft()
            else:
                self.stalled += 1
        while self.addresses and len(self.beats) >= self.addresses[0][1]:
            first, count = self.addresses.popleft()
            beats = [self.beats.popleft() for _ in range(count)]
            assert [beat >> width("write_beat_t") - 1 for beat in beats] == [0] * (count - 1) + [1]
            self.unanswered.append((self.delay(), first, beats))

    def is_idle(self):
        return not (self.addresses or self.beats or self.unanswered or self.reads)
