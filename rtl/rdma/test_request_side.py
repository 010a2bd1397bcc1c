"""request_side: the golden scripts of the soft transport, and random traffic against a model of the peer."""

import itertools
import os
import pathlib
import random
import re
from collections import Counter, deque

import cocotb

import bench
from request_side_bench import EVENTS, LKEY, Bench, Region
from structs import constant

# Set in the environment: the module was built with a small window under additive increase, multiplicative decrease.
SMALL_WINDOW = "WEFT_SMALL_WINDOW"
SCRIPTS = pathlib.Path(__file__).parents[2] / "crates/rdma/tests/scripts"
SOURCES = [
    "weft_pkg.sv",
    "rdma/rate_pkg.sv",
    "rdma/transmit_pkg.sv",
    "stream/fifo.sv",
    "stream/ram.sv",
    "rdma/scheduler.sv",
    "rdma/timers.sv",
    "rdma/send_queue.sv",
    "rdma/congestion.sv",
    "rdma/rate_machine.sv",
    "rdma/rate_control.sv",
    "rdma/completer.sv",
    "rdma/request_control.sv",
    "rdma/requester_pkg.sv",
    "rdma/requester_awaited.sv",
    "rdma/requester_packets.sv",
    "rdma/requester_verdicts.sv",
    "rdma/round_trip.sv",
    "rdma/requester.sv",
    "rdma/request_side.sv",
]
NAMES = {
    "SEND_FIRST": 0x00, "SEND_MIDDLE": 0x01, "SEND_LAST": 0x02, "SEND_LAST_WITH_IMMEDIATE": 0x03,
    "SEND_ONLY": 0x04, "SEND_ONLY_WITH_IMMEDIATE": 0x05, "WRITE_FIRST": 0x06, "WRITE_MIDDLE": 0x07,
    "WRITE_LAST": 0x08, "WRITE_LAST_WITH_IMMEDIATE": 0x09, "WRITE_ONLY": 0x0A, "WRITE_ONLY_WITH_IMMEDIATE": 0x0B,
    "READ_REQUEST": 0x0C, "READ_RESPONSE_FIRST": 0x0D, "READ_RESPONSE_MIDDLE": 0x0E, "READ_RESPONSE_LAST": 0x0F,
    "READ_RESPONSE_ONLY": 0x10, "ACKNOWLEDGE": 0x11, "ATOMIC_ACKNOWLEDGE": 0x12, "COMPARE_SWAP": 0x13,
    "FETCH_ADD": 0x14,
}  # fmt: skip
OPCODES = {number: name for name, number in NAMES.items()}
RESPONSES = {name for name, number in NAMES.items() if 0x0D <= number <= 0x12}
NAKS = {"PsnSequenceError": 0x60, "InvalidRequest": 0x61, "RemoteAccessError": 0x62, "RemoteOperationalError": 0x63}
STATUSES = {
    0: "IBV_WC_SUCCESS", 1: "IBV_WC_LOC_LEN_ERR", 4: "IBV_WC_LOC_PROT_ERR", 5: "IBV_WC_WR_FLUSH_ERR",
    7: "IBV_WC_BAD_RESP_ERR", 9: "IBV_WC_REM_INV_REQ_ERR", 10: "IBV_WC_REM_ACCESS_ERR", 11: "IBV_WC_REM_OP_ERR",
    12: "IBV_WC_RETRY_EXC_ERR", 13: "IBV_WC_RNR_RETRY_EXC_ERR",
}  # fmt: skip
OPERATIONS = ["Send", "Write", "Read", "CompareSwap", "FetchAdd"]
MTUS = {256: 1, 512: 2, 1024: 3, 2048: 4, 4096: 5}


def describe(packet):
    """A packet as one line, in the format of the scripts."""
    line = f"{OPCODES[packet['opcode']]} psn={packet['psn']}"
    name = OPCODES[packet["opcode"]]
    if packet["acknowledge_request"]:
        line += " ack?"
    if packet["solicited"]:
        line += " solicited"
    if name.startswith(("WRITE_FIRST", "WRITE_ONLY", "READ_REQUEST")):
        line += f" at={packet['remote_address']:#x} length={packet['length']}"
    if name in ("FETCH_ADD", "COMPARE_SWAP"):
        line += f" at={packet['remote_address']:#x} operand={packet['swap_or_add']}"
        if name == "COMPARE_SWAP":
            line += f" if={packet['compare']}"
    if "IMMEDIATE" in name:
        line += f" immediate={packet['immediate']:#x}"
    if packet["bytes"]:
        line += f" payload={packet['bytes']}"
    return line


def describe_completion(completion):
    line = f"completes #{completion['id']} {STATUSES[completion['status']]}"
    if completion["status"] == 0:
        line += f" {OPERATIONS[completion['opcode']]}"
        if completion["bytes"]:
            line += f" {completion['bytes']} bytes"
    elif completion["vendor_error"]:
        line += f" vendor_err {completion['vendor_error']:#x}"
    return line


class Script:
    """Replays side A of a script; the answers of side B are taken from the script."""

    def __init__(self, name, bench_):
        self.lines = (SCRIPTS / f"{name}.txt").read_text().splitlines()
        self.bench = bench_
        self.qp = 3
        self.regions = {}

    async def play(self):
        blocks = []
        for line in self.lines:
            if line.startswith("> "):
                blocks.append((line[2:].split(), []))
            elif line.startswith("  "):
                blocks[-1][1].append(line[2:])
        for words, output in blocks:
            await self.command(words, output)

    async def command(self, words, output):
        side = words.pop(0) if words[0] in "AB" else "A"
        verb, rest = words[0], words[1:]
        keys = dict(word.split("=") for word in rest if "=" in word)
        operands = [word for word in rest if "=" not in word]
        keys = {key: value for key, value in keys.items()}
        if verb == "connect":
            await self.connect({key: int(value, 0) for key, value in keys.items()})
        elif verb in ("run", "round", "nak"):
            await self.converse(output)
        elif verb == "counters" and side == "A":
            expected = {name: int(value) for name, value in (line.split() for line in output)}
            expected = {name: value for name, value in expected.items() if name in EVENTS}
            # Counters of the receive queue and of refusals are the responder's.
            assert expected == dict(self.bench.counters), (expected, self.bench.counters)
        elif verb == "state":
            state, psn, queued = re.match(r"A is in (\w+), sends psn (\d+) next, .* (\d+) work", output[0]).groups()
            query = await self.bench.query(self.qp)
            assert query["next_psn"] == int(psn), (query, output[0])
            assert query["queued"] == int(queued), (query, output[0])
            assert query["state"] == {"RTS": 1, "ERROR": 2}[state], (query, output[0])
        elif verb == "region" and side == "A":
            key = LKEY + 1 + len(self.regions)
            self.regions[operands[0]] = key
            self.bench.regions[key] = Region(
                int(keys["at"], 0),
                int(keys["length"], 0),
                "constant" not in operands,
                {"register": 0, "onchip": 1, "hbm": 2, "host": 3}[keys.get("target", "host")],
            )
        elif verb == "receive" and side == "A":
            self.id += 1
        elif verb in ("send", "write", "read", "add", "swap") and side == "A":
            self.post(verb, operands, keys, output)
            if not any(line.startswith("refused") for line in output):
                await self.expect(output)

    async def connect(self, keys):
        if self.bench.controls_done:
            await self.bench.control("ControlReset", self.qp)
            self.qp += 1
        self.bench.counters.clear()
        self.id = 1
        names = {"retry_cnt": "retry_count", "rd_atomic": "max_rd_atomic"}
        changes = {
            names.get(key, key): value
            for key, value in keys.items()
            if key in ("timeout", "retry_cnt", "rnr_retry", "rd_atomic")
        }
        changes["path_mtu"] = MTUS[keys.get("mtu", 256)]
        await self.bench.connect(self.qp, keys.get("psn", 100), **changes)

    def post(self, verb, operands, keys, output):
        number = self.id
        self.id += 1
        if any(line.startswith("refused") for line in output):
            return
        amount = int(operands[0], 0) if operands else 0
        length = 8 if verb in ("add", "swap") else amount
        lkey = self.regions[keys["own"]] if "own" in keys else int(keys.get("lkey", str(LKEY)), 0)
        self.bench.posts.append(
            dict(
                qp=self.qp,
                id=number,
                operation={"send": 0, "write": 1, "read": 2, "swap": 3, "add": 4}[verb],
                signaled="unsignaled" not in operands,
                fence="fence" in operands,
                solicited="solicited" in operands,
                has_immediate="immediate" in keys,
                immediate=int(keys.get("immediate", "0"), 0),
                local_address=int(keys.get("local", "0x1000"), 0),
                length=length,
                lkey=lkey,
                remote_address=int(keys.get("at", "0x2000"), 0),
                rkey=int(keys.get("rkey", "0x55"), 0),
                swap_or_add=amount,
                compare=int(keys.get("if", "0"), 0),
            )
        )

    async def expect(self, output):
        """Checks the completions that follow directly from a post."""
        expected = [line[2:] for line in output if line.startswith("A completes")]
        if not expected:
            return
        await self.bench.settle()
        assert [describe_completion(c) for c in self.bench.completions] == expected
        self.bench.completions.clear()

    def answer(self, words):
        """The header of a response of side B."""
        values = dict(word.split("=") for word in words if "=" in word)
        psn = int(values["psn"])
        more = {}
        if words[0] == "ACKNOWLEDGE":
            more["syndrome"] = 0x1F
            if "NAK" in words:
                more["syndrome"] = NAKS[words[words.index("NAK") + 1]]
            elif "RNR" in words:
                more["syndrome"] = 0x20 | int(values["timer"])
        if "original" in values:
            more["swap_or_add"] = int(values["original"])
        more["payload_bytes"] = int(values.get("payload", "0"))
        more["acknowledge_request"] = "keeps" in words
        self.bench.header(self.qp, NAMES[words[0]], psn, **more)

    async def converse(self, output):
        dut = self.bench
        groups = [
            (key, list(lines))
            for key, lines in itertools.groupby(
                output, lambda line: "pass" if line.startswith("..") else line[:6] if "->" in line else line[:11]
            )
        ]
        sent, completed = [], []
        for key, lines in groups:
            if key == "A -> B":
                await dut.settle()
                for line in lines:
                    text = line[8:].split("  ")[0]
                    if text.split()[0] not in RESPONSES:
                        sent.append(text)
                    elif any(code in text for code in NAKS if code != "PsnSequenceError"):
                        dut.fails.append(self.qp)
            elif key == "B -> A":
                late = []
                await dut.settle()
                for line in lines:
                    text, _, remark = line[8:].partition("  ")
                    words = text.split()
                    if words[0] in RESPONSES and remark != "(lost)":
                        for _ in range(2 if remark == "(duplicated)" else 1):
                            (late.append if remark == "(delayed)" else self.answer)(words)
                for words in late:
                    self.answer(words)
                # Packets sent before these answers were not caused by them.
                self.check(sent)
                await dut.settle()
            elif key == "pass":
                await dut.settle()
                await dut.pass_time()
                await dut.settle()
            elif key == "A completes":
                completed += [line[2:] for line in lines]
        await dut.settle()
        self.check(sent)
        self.bench.transmitted.clear()
        # Completions of receive requests come from the responder.
        completed = [line for line in completed if "Receive" not in line]
        actual = [describe_completion(completion) for completion in dut.completions]
        receive = [line for line in completed if line not in actual]
        completed = [line for line in completed if line not in receive]
        assert actual == completed, (actual, completed)
        assert all("FLUSH" in line for line in receive), receive
        dut.completions.clear()

    def check(self, sent):
        actual = [describe(packet) for packet in self.bench.transmitted]
        assert actual == sent, "\n".join(["sent:", *actual, "expected:", *sent])
        assert all(packet["qp"] == self.qp for packet in self.bench.transmitted)


@cocotb.test()
async def conversations_of_the_soft_transport(dut):
    names = (
        "write_segmented write_immediate send_receiver_not_ready receiver_not_ready_retry_exceeded read_response_lost"
        " read_acknowledges_earlier_writes atomic_duplicate nak_sequence_go_back_n time_out_go_back_n"
        " lost_acknowledgement retry_exceeded_flush access_violation invalid_requests local_errors psn_wrap fence"
        " duplicate_responses nak_sequence_receiver_not_ready read_time_out read_repaired"
    ).split()
    if SMALL_WINDOW in os.environ:
        names = ["window"]
    for index, name in enumerate(names):
        surroundings = Bench(dut)
        await surroundings.start(clock=index == 0)
        dut._log.info("script %s", name)
        await Script(name, surroundings).play()


MASK = (1 << 24) - 1
HOST, CARD = LKEY, LKEY + 1


def after(a, b):
    """Distance from PSN b to PSN a; negative if a precedes b."""
    return ((a - b + (1 << 23)) & MASK) - (1 << 23)


class Peer:
    """The other end of a queue pair, and a record of the requests that were posted."""

    def __init__(self, surroundings, chance, qp, psn, mtu):
        self.bench, self.chance, self.qp, self.mtu = surroundings, chance, qp, mtu
        self.expected = self.next = psn
        self.reported = self.waiting = False
        # After an RNR NAK of a SEND this peer also reports the gap that it leaves, as Linux's soft RoCE does.
        self.talkative = chance.random() < 0.5
        self.requests, self.packets, self.sent = [], {}, set()
        self.outcomes, self.placed = {}, {}
        # This peer answers for a part of a READ without ending its answer to the whole, and says so.
        self.parts = chance.random() < 0.7
        # It keeps requests behind a gap, and says so.
        self.keeps = chance.random() < 0.5
        self.kept = {}
        # The number of the request whose response each byte of memory has.
        self.memory = {}
        self.completed = []
        self.outgoing = deque()
        self.incoming = deque()
        self.failed = False
        self.unacknowledged = psn
        self.lossy = 0.0

    def post(self, **request):
        chance = self.chance
        operation = request.get("operation", chance.choice([0, 1, 1, 1, 2, 3, 4]))
        length = 8 if operation > 2 else chance.choice([0, 1, self.mtu, self.mtu + 1, chance.randrange(5 * self.mtu)])
        number = len(self.requests)
        values = dict(
            qp=self.qp,
            id=self.qp << 32 | number,
            operation=operation,
            signaled=chance.random() < 0.5 or number % 8 == 0,
            fence=chance.random() < 0.1,
            solicited=chance.random() < 0.2,
            has_immediate=operation < 2 and chance.random() < 0.3,
            immediate=chance.getrandbits(32),
            # Some buffers overlap.
            local_address=chance.randrange(chance.choice([1 << 12, 1 << 18])),
            length=length,
            lkey=chance.choice([HOST, CARD]),
            remote_address=chance.getrandbits(60) & ~7,
            rkey=chance.getrandbits(32),
            swap_or_add=chance.getrandbits(64),
            compare=chance.getrandbits(64),
        )
        values.update(request)
        length = values["length"]
        packets = max(1, -(-length // self.mtu))
        values["first"] = self.next
        values["packets"] = packets
        self.requests.append(values)
        for packet in range(packets):
            self.packets[(self.next + packet) & MASK] = (values, packet)
        self.next = (self.next + packets) & MASK
        self.bench.posts.append({k: v for k, v in values.items() if k not in ("first", "packets")})

    def outstanding(self):
        return len(self.requests) - (self.completed[-1] + 1 if self.completed else 0)

    def check(self, packet):
        """Checks that a packet is exactly the one that the request with this PSN requires."""
        psn = packet["psn"]
        request, number = self.packets[psn]
        assert request["lkey"] in (HOST, CARD), "a request without memory is not sent"
        operation, length, packets = request["operation"], request["length"], request["packets"]
        first, last = number == 0, number + 1 == packets
        again = psn in self.sent
        rest = length - number * self.mtu
        if operation < 2:
            base = 6 * operation
            immediate = request["has_immediate"] and last
            kind = 4 if first and last else 0 if first else 2 if last else 1
            assert packet["opcode"] == base + kind + immediate
            assert packet["bytes"] == min(rest, self.mtu)
            if immediate:
                assert packet["immediate"] == request["immediate"]
            if operation == 1 and first:
                assert packet["length"] == length
            assert packet["solicited"] == (request["solicited"] and last)
            self.sent.add(psn)
        else:
            assert packet["opcode"] == {2: 0x0C, 3: 0x13, 4: 0x14}[operation]
            assert packet["bytes"] == 0 and not packet["keep"]
            last = True
            for response in range(number, packets):
                self.sent.add((request["first"] + response) & MASK)
            if operation == 2:
                part = self.parts and again and 0 < packet["length"] < rest and packet["length"] % self.mtu == 0
                assert packet["length"] == rest or part
            else:
                assert packet["swap_or_add"] == request["swap_or_add"]
                assert packet["compare"] == (request["compare"] if operation == 3 else 0)
        if operation == 1 and first or operation > 1:
            assert packet["remote_address"] == request["remote_address"] + number * self.mtu
            assert packet["rkey"] == request["rkey"]
        if packet["bytes"]:
            address = request["local_address"] + number * self.mtu
            slot = (self.qp << 6 | psn & 63) << 13
            host = request["lkey"] == HOST
            assert packet["source"]["retransmission"] == (host and again)
            assert packet["keep"] == (host and not again)
            assert packet["keep_address"] == slot
            assert packet["source_address"] == (slot | address & 63 if host and again else address)
            assert packet["source"]["target"] == (3 if host else 2)
        assert last and request["signaled"] <= packet["acknowledge_request"] or not last
        # What a verdict that still waits acknowledges is not known here.
        if (operation < 2 or not again) and not int(self.bench.dut.verdict_valid_o.value):
            limit = 2 if SMALL_WINDOW in os.environ else 64
            assert after(psn, self.unacknowledged) < limit, "more packets than the window allows"
        return request, number

    def receive(self, packet):
        request, number = self.packets[packet["psn"]]
        psn = packet["psn"]
        distance = after(psn, self.expected)
        if distance > 0:
            keeps = self.keeps and not self.waiting
            if keeps:
                self.kept[psn] = packet
            if not self.reported and (not self.waiting or self.talkative):
                self.report(keeps)
            return
        if distance < 0:
            if request["operation"] == 2:
                self.respond(request, number, -(-packet["length"] // self.mtu))
            elif request["operation"] > 2:
                self.answer(0x12, psn, swap_or_add=self.outcomes[psn])
            else:
                self.answer(0x11, (self.expected - 1) & MASK, syndrome=0x1F)
            return
        if request["operation"] == 0 and number == 0 and self.chance.random() < self.lossy:
            self.waiting = True
            self.answer(0x11, psn, syndrome=0x21)
            return
        self.reported = self.waiting = False
        operation = request["operation"]
        self.expected = (psn + (request["packets"] - number if operation == 2 else 1)) & MASK
        if operation == 2:
            self.respond(request, number, request["packets"])
        elif operation > 2:
            self.outcomes[psn] = self.chance.getrandbits(64)
            self.answer(0x12, psn, swap_or_add=self.outcomes[psn])
        elif packet["acknowledge_request"]:
            # A later acknowledgement replaces an earlier one that has not been sent.
            if self.outgoing and self.outgoing[-1][0] == 0x11 and self.outgoing[-1][2].get("syndrome") == 0x1F:
                self.outgoing.pop()
            self.answer(0x11, psn, syndrome=0x1F)
        self.kept = {kept: value for kept, value in self.kept.items() if after(kept, self.expected) >= 0}
        if self.expected in self.kept:
            self.receive(self.kept.pop(self.expected))
        elif self.kept and not self.reported:
            self.report(keeps=True)

    def report(self, keeps):
        self.reported = True
        self.answer(0x11, self.expected, syndrome=0x60, acknowledge_request=keeps)

    def respond(self, request, number, count):
        packets = min(request["packets"], number + max(1, count))
        for packet in range(number, packets):
            opcode = 0x10 if packets - number == 1 else 0x0D if packet == number else 0x0F if packet + 1 == packets else 0x0E
            length = max(0, min(self.mtu, request["length"] - packet * self.mtu))
            self.answer(opcode, (request["first"] + packet) & MASK, payload_bytes=length)

    def answer(self, opcode, psn, **values):
        if opcode != 0x11:
            values["acknowledge_request"] = self.parts
        self.outgoing.append((opcode, psn, values))

    def place(self, header, verdict):
        """Processes a verdict about an answer of this peer: moves data to its destination."""
        if verdict["place"]:
            assert verdict["place"] == 1
            request, number = self.packets[header["psn"]]
            assert header["psn"] not in self.placed, "a response counts once"
            self.placed[header["psn"]] = True
            index = request["id"] & 0xFFFFFFFF
            for byte in range(verdict["address"], verdict["address"] + verdict["bytes"]):
                assert self.memory.get((verdict["target"], byte), -1) <= index, "overwrites what a later READ has read"
                self.memory[verdict["target"], byte] = index
            assert verdict["address"] == request["local_address"] + number * self.mtu
            assert verdict["target"] == (3 if request["lkey"] == HOST else 2)
            if header["opcode"] == 0x12:
                assert verdict["offset"] == 127 and verdict["bytes"] == 8
                assert verdict["swap_or_add"] == header["swap_or_add"]
            else:
                assert verdict["bytes"] == header["payload_bytes"] and verdict["offset"] == 58
        self.acknowledge(verdict["consequence"]["advance"])

    def acknowledge(self, advance):
        if advance["kind"] == 1:
            assert after(advance["psn"], self.unacknowledged) > 0
            assert after(advance["psn"], self.expected) <= 0, "acknowledged what the peer does not have"
            self.unacknowledged = advance["psn"]

    def complete(self, completion):
        index = completion["id"] & 0xFFFFFFFF
        request = self.requests[index]
        following = self.completed[-1] + 1 if self.completed else 0
        assert index >= following
        assert completion["opcode"] == request["operation"]
        assert completion["bytes"] == (request["length"] if request["operation"] > 1 else 0)
        if completion["status"] == 0:
            assert not self.failed and request["signaled"]
            assert all(not skipped["signaled"] for skipped in self.requests[following:index])
        elif self.failed:
            assert completion["status"] == 5 and index == following
        else:
            assert all(not skipped["signaled"] for skipped in self.requests[following:index])
            self.failed = completion["status"]
        if request["operation"] > 1 and completion["status"] == 0 and request["length"]:
            for packet in range(request["packets"]):
                assert (request["first"] + packet) & MASK in self.placed, "complete before the data is there"
        self.completed.append(index)


class Wire:
    """Transfers packets between request_side and its peers, and loses some in both directions."""

    def __init__(self, surroundings, peers, chance):
        self.bench, self.peers, self.chance = surroundings, peers, chance
        self.loss = 0.0
        self.under_judgement = deque()
        self.completions_seen = self.verdicts_seen = self.headers_seen = 0
        self.delay = 20
        surroundings.on_transmit = self.transmit

    def transmit(self, packet):
        peer = self.peers[packet["qp"]]
        peer.check(packet)
        if self.chance.random() >= self.loss:
            peer.incoming.append((self.bench.cycle_count + self.delay, packet))

    def step(self):
        bench_ = self.bench
        for peer in self.peers.values():
            peer.lossy = 2 * self.loss
            while peer.incoming and peer.incoming[0][0] <= bench_.cycle_count:
                peer.receive(peer.incoming.popleft()[1])
            if peer.outgoing and len(bench_.headers) < 8 and self.chance.random() < 0.5:
                opcode, psn, values = peer.outgoing.popleft()
                copies = 0 if self.chance.random() < self.loss else 2 if self.chance.random() < self.loss else 1
                for _ in range(copies):
                    bench_.header(peer.qp, opcode, psn, **values)
                    self.under_judgement.append((peer, dict(opcode=opcode, psn=psn) | values))
        for verdict in bench_.verdicts[self.verdicts_seen :]:
            if verdict["packet"]:
                peer, header = self.under_judgement.popleft()
                assert verdict["consequence"]["qp"] == peer.qp, "verdicts out of order"
                peer.place(header, verdict)
            else:
                # Responses that came early are taken without a packet.
                self.peers[verdict["consequence"]["qp"]].acknowledge(verdict["consequence"]["advance"])
        self.verdicts_seen = len(bench_.verdicts)
        for completion in bench_.completions[self.completions_seen :]:
            self.peers[completion["qp"]].complete(completion)
        self.completions_seen = len(bench_.completions)

    def quiet(self):
        return not any(peer.incoming or peer.outgoing for peer in self.peers.values()) and not self.under_judgement


async def exchange(surroundings, wire, limit):
    """Runs until everything is complete. Advances the time when only a deadline is left."""
    for _ in range(limit):
        await surroundings.cycle()
        wire.step()
        if wire.quiet() and not surroundings.busy():
            if all(not peer.requests or peer.outstanding() == 0 or not any(
                request["signaled"] for request in peer.requests[peer.completed[-1] + 1 if peer.completed else 0 :]
            ) for peer in wire.peers.values()) and not int(surroundings.dut.armed_o.value):
                return
            assert await surroundings.pass_time(), "waits for nothing"
    raise AssertionError("the exchange does not end")


@cocotb.test()
async def everything_arrives_once_whatever_is_lost(dut):
    for seed, stall in ((1, 0.0), (2, 0.4)):
        chance = random.Random(seed)
        surroundings = Bench(dut, seed=seed, stall=stall)
        await surroundings.start(clock=seed == 1)
        surroundings.regions = {HOST: Region(), CARD: Region(target=2)}
        peers = {}
        wire = Wire(surroundings, peers, chance)
        for qp in (0, 5, 6, 311, 511):
            psn = chance.choice([0, MASK - 5, chance.getrandbits(24)])
            mtu = chance.choice([256, 512])
            await surroundings.connect(
                qp, psn, path_mtu=MTUS[mtu], timeout=1, max_rd_atomic=chance.choice([1, 2, 16]), rnr_retry=7
            )
            peers[qp] = Peer(surroundings, chance, qp, psn, mtu)
        for phase in range(4 if SMALL_WINDOW in os.environ else 8):
            wire.loss = (0.0, 0.02, 0.1, 0.0)[phase % 4]
            for _ in range(150):
                peer = chance.choice(list(peers.values()))
                # An unsignaled request is only known to be complete by a completion of a later one.
                if peer.outstanding() < 56 and not peer.failed:
                    peer.post()
            await exchange(surroundings, wire, 40_000)
        for peer in peers.values():
            assert not peer.failed, STATUSES[peer.failed]
            query = None
            peer.bench.queries.append(peer.qp)
            while peer.bench.queries:
                await peer.bench.cycle()
            query = peer.bench.answers[-1]
            assert query["queued"] == 0 and query["next_psn"] == peer.next
        assert surroundings.counters["implied_nak_seq_err"] and surroundings.counters["rcvd_seq_err"]
        assert surroundings.counters["ack_timeout"] and surroundings.counters["rcvd_rnr_err"]
        dut._log.info("%s", dict(surroundings.counters))


@cocotb.test()
async def failures_keep_the_order_and_a_reset_starts_afresh(dut):
    chance = random.Random(7)
    surroundings = Bench(dut, seed=7, stall=0.2)
    await surroundings.start()
    surroundings.regions = {HOST: Region(), CARD: Region(target=2)}
    peers = {}
    wire = Wire(surroundings, peers, chance)
    ends = Counter()
    for phase in range(12):
        for qp in (0, 77, 100, 510):
            peer = peers.get(qp)
            if peer is None or peer.failed or chance.random() < 0.2:
                if peer:
                    await surroundings.control("ControlReset", qp)
                    assert (await surroundings.query(qp))["queued"] == 0
                psn = chance.getrandbits(24)
                await surroundings.connect(qp, psn, timeout=1, retry_count=chance.choice([2, 7]), rnr_retry=2)
                peers[qp] = Peer(surroundings, chance, qp, psn, 256)
        wire.loss = (0.0, 0.05, 0.3)[phase % 3]
        bad = chance.choice([*peers, None, None])
        for count in range(40):
            peer = chance.choice(list(peers.values()))
            if peer.outstanding() < 56:
                if peer.qp == bad and count > 20:
                    peer.post(lkey=0x99, length=chance.choice([8, 400]), operation=chance.choice([0, 1, 2]))
                    bad = None
                else:
                    peer.post()
        surroundings.failed.clear()
        await exchange(surroundings, wire, 60_000)
        for peer in peers.values():
            if peer.failed:
                ends[peer.failed] += 1
                assert surroundings.failed.count(peer.qp) == 1
                assert peer.completed[-1] + 1 == len(peer.requests), "all are flushed"
            else:
                assert peer.qp not in surroundings.failed
                assert all(request["lkey"] in (HOST, CARD) for request in peer.requests)
    dut._log.info("ends: %s", dict(ends))
    assert ends[4] > 2 and ends[12] + ends[13] > 2


@cocotb.test()
async def small_writes_over_many_queue_pairs_at_line_rate(dut):
    surroundings = Bench(dut)
    await surroundings.start()
    queue_pairs = list(range(32))
    for qp in queue_pairs:
        await surroundings.connect(qp, 1000 * qp, path_mtu=5)
    acknowledgements = deque()

    def transmit(packet):
        if packet["acknowledge_request"]:
            acknowledgements.append((surroundings.cycle_count + 100, packet["qp"], packet["psn"]))

    surroundings.on_transmit = transmit
    posted = 0
    began = surroundings.cycle_count
    while surroundings.cycle_count < began + 2_000:
        if len(surroundings.posts) < 4:
            surroundings.posts.append(
                dict(qp=posted % 32, id=posted, operation=1, signaled=1, length=64, lkey=LKEY, local_address=64 * posted)
            )
            posted += 1
        while acknowledgements and acknowledgements[0][0] <= surroundings.cycle_count:
            _, qp, psn = acknowledgements.popleft()
            surroundings.header(qp, 0x11, psn, syndrome=0x1F)
        await surroundings.cycle()
        assert len(surroundings.headers) < 16, "acknowledgements pile up"
    cycles = [packet["cycle"] for packet in surroundings.transmitted]
    interval = (cycles[-1] - cycles[200]) / (len(cycles) - 201)
    dut._log.info("a packet every %.2f cycles, the first after %d", interval, cycles[0] - began)
    assert interval <= 3.05
    assert cycles[0] - began <= 14
    assert len(surroundings.completions) > 500
    assert surroundings.counters["post_overflow"] == 0


@cocotb.test()
async def one_queue_pair_alone_is_fast(dut):
    surroundings = Bench(dut)
    await surroundings.start()
    await surroundings.connect(9, 0, path_mtu=5)
    for number in range(40):
        surroundings.posts.append(
            dict(qp=9, id=number, operation=1, signaled=0, length=4096, lkey=LKEY, local_address=4096 * (number % 16))
        )
    await surroundings.settle()
    cycles = [packet["cycle"] for packet in surroundings.transmitted]
    interval = (cycles[-1] - cycles[0]) / (len(cycles) - 1)
    dut._log.info("one queue pair: a packet every %.2f cycles", interval)
    assert interval <= 12


@cocotb.test()
async def headers_that_mean_nothing_change_nothing(dut):
    surroundings = Bench(dut)
    await surroundings.start()
    await surroundings.connect(4, 50)
    surroundings.table[7] = dict(surroundings.table[4], number=0x207)
    surroundings.table[8] = dict(surroundings.table[4], number=0x008)
    write = dict(qp=4, id=1, operation=1, signaled=1, length=8, lkey=LKEY)
    read = dict(qp=4, id=2, operation=2, signaled=1, length=300, lkey=LKEY)
    surroundings.posts.extend([write, read])
    await surroundings.settle()
    before = await surroundings.query(4)
    acknowledge = dict(opcode=0x11, psn=50, syndrome=0x1F)
    kinds = [
        ("drop_unknown_queue_pair", dict(acknowledge, destination_qp=0x404)),
        ("drop_unknown_queue_pair", dict(acknowledge, destination_qp=0x20A)),
        # The driver puts a reserved number, below those of queue pairs, into the entry of a destroyed queue pair.
        ("drop_unknown_queue_pair", dict(acknowledge, destination_qp=0x008)),
        ("drop_partition_key", dict(acknowledge, partition_key=0x7FFE)),
        ("drop_wrong_state", dict(acknowledge, destination_qp=0x207)),
        ("drop_wrong_source", dict(acknowledge, source=0x0A000003)),
        ("drop_ghost_response", dict(acknowledge, psn=53)),
        ("drop_ghost_response", dict(acknowledge, psn=(50 + (1 << 22)) & MASK)),
        ("drop_stale_response", dict(acknowledge, psn=49)),
        ("drop_stale_response", dict(acknowledge, psn=(50 - (1 << 23)) & MASK)),
        ("drop_reserved_syndrome", dict(acknowledge, syndrome=0x64)),
        ("drop_malformed", dict(acknowledge, syndrome=0x65)),
        ("drop_malformed", dict(acknowledge, syndrome=0x80)),
        ("drop_malformed", dict(acknowledge, syndrome=0x40)),
        # A READ response with the PSN of the WRITE.
        ("drop_malformed", dict(opcode=0x10, psn=50, payload_bytes=8)),
        ("drop_malformed", dict(opcode=0x12, psn=50)),
    ]
    expected = Counter()
    for counter, header in kinds:
        surroundings.header(4, header.pop("opcode"), header.pop("psn"), **header)
        expected[counter] += 1
        expected["rcvd_pkts"] += 1
    await surroundings.settle()
    assert expected == surroundings.counters
    assert len(surroundings.verdicts) == len(kinds)
    for verdict in surroundings.verdicts:
        assert verdict["packet"] and not verdict["place"] and not verdict["consequence"]["advance"]["kind"]
    assert await surroundings.query(4) == before
    assert len(surroundings.transmitted) == 2 and not surroundings.completions
    # Valid responses are still accepted. Limited membership in the partition suffices, too.
    surroundings.header(4, 0x11, 50, syndrome=0x1F, partition_key=0x7FFF)
    surroundings.header(4, 0x0D, 51, payload_bytes=256)
    surroundings.header(4, 0x0F, 52, payload_bytes=44)
    await surroundings.settle()
    assert [completion["status"] for completion in surroundings.completions] == [0, 0]
    # Marked responses and notifications of the peer are counted.
    surroundings.header(4, 0x11, 52, syndrome=0x1F, marked=1)
    surroundings.header(7, 0x81, 0)
    surroundings.header(7, 0x81, 0, source=1)
    await surroundings.settle()
    assert surroundings.counters["congestion_marks"] == 2
    assert surroundings.counters["drop_wrong_source"] == 2


@cocotb.test()
async def wrong_responses_and_refusals_end_the_queue_pair(dut):
    surroundings = Bench(dut, seed=3, stall=0.2)
    await surroundings.start()
    surroundings.regions[LKEY + 1] = Region()
    cases = [
        # The response to the READ with PSN 11, and the resulting status.
        (dict(opcode=0x12, psn=11), 7, 0, {}),
        (dict(opcode=0x10, psn=11, payload_bytes=9), 1, 0, {}),
        (dict(opcode=0x10, psn=11, payload_bytes=0), 1, 0, {}),
        (dict(opcode=0x11, psn=11, syndrome=0x61), 9, 0x61, {"rcvd_invalid_request": 1}),
        (dict(opcode=0x11, psn=11, syndrome=0x62), 10, 0x62, {"rcvd_access_error": 1}),
        (dict(opcode=0x11, psn=11, syndrome=0x63), 11, 0x63, {"rcvd_operational_error": 1}),
        # The READ's local memory region is invalidated meanwhile.
        (dict(opcode=0x10, psn=11, payload_bytes=8), 4, 0, {"send_err": 1, "violation_key": 1}),
    ]
    for index, (header, status, vendor, counters) in enumerate(cases):
        qp = 20 + index
        surroundings.counters.clear()
        surroundings.completions.clear()
        surroundings.failed.clear()
        surroundings.verdicts.clear()
        surroundings.regions[LKEY] = Region()
        await surroundings.connect(qp, 10)
        surroundings.posts.append(dict(qp=qp, id=1, operation=1, signaled=1, length=8, lkey=LKEY))
        surroundings.posts.append(dict(qp=qp, id=2, operation=2, signaled=0, length=8, lkey=LKEY))
        surroundings.posts.append(dict(qp=qp, id=3, operation=1, signaled=0, length=8, lkey=LKEY))
        await surroundings.settle()
        if status == 4:
            del surroundings.regions[LKEY]
        surroundings.header(qp, header.pop("opcode"), header.pop("psn"), **header)
        await surroundings.settle()
        ended = [(c["id"], c["status"], c["vendor_error"]) for c in surroundings.completions]
        assert ended == [(1, 0, 0), (2, status, vendor), (3, 5, 0)], ended
        assert surroundings.failed == [qp]
        assert dict(surroundings.counters) == {"rcvd_pkts": 1, **counters}
        assert not any(verdict["place"] for verdict in surroundings.verdicts)
        # Requests posted in ERROR are flushed, and answers are dropped.
        surroundings.posts.append(dict(qp=qp, id=4, operation=0, signaled=0, length=600, lkey=0))
        surroundings.header(qp, 0x11, 11, syndrome=0x1F)
        await surroundings.settle()
        assert [(c["id"], c["status"]) for c in surroundings.completions[3:]] == [(4, 5)]
        assert surroundings.counters["drop_wrong_state"] == 1
        query = await surroundings.query(qp)
        assert (query["state"], query["next_psn"], query["queued"]) == (2, 16, 0)
        assert not int(dut.armed_o.value)
    # A fault of the responder or a command of the driver flushes as well, without reporting a fault to the responder.
    surroundings.failed.clear()
    for qp, way in ((40, "fail"), (41, "ControlError")):
        await surroundings.connect(qp, 10)
        surroundings.completions.clear()
        for number in range(3):
            surroundings.posts.append(dict(qp=qp, id=number, operation=1, signaled=0, length=8, lkey=LKEY + 1))
        await surroundings.settle()
        if way == "fail":
            surroundings.fails.append(qp)
        else:
            await surroundings.control(way, qp)
        await surroundings.settle()
        assert [(c["id"], c["status"]) for c in surroundings.completions] == [(0, 5), (1, 5), (2, 5)]
        assert not surroundings.failed
    # Reset drops all requests without completions; then the queue pair starts anew.
    surroundings.completions.clear()
    await surroundings.connect(42, 10)
    for number in range(20):
        surroundings.posts.append(dict(qp=42, id=number, operation=1, signaled=1, length=300, lkey=LKEY + 1))
    while surroundings.posts:
        await surroundings.cycle()
    await surroundings.control("ControlReset", 42)
    await surroundings.settle()
    assert not surroundings.completions and (await surroundings.query(42))["queued"] == 0
    surroundings.posts.append(dict(qp=42, id=7, operation=1, signaled=1, length=8, lkey=LKEY + 1))
    await surroundings.settle()
    assert surroundings.counters["post_wrong_state"] == 1
    surroundings.transmitted.clear()
    await surroundings.control("ControlSend", 42, 777)
    surroundings.posts.append(dict(qp=42, id=8, operation=1, signaled=1, length=8, lkey=LKEY + 1))
    await surroundings.settle()
    assert [packet["psn"] for packet in surroundings.transmitted] == [777]
    surroundings.header(42, 0x11, 777, syndrome=0x1F)
    await surroundings.settle()
    assert [(c["id"], c["status"]) for c in surroundings.completions] == [(8, 0)]


@cocotb.test()
async def posts_that_can_not_be_carried_out_are_dropped(dut):
    surroundings = Bench(dut)
    await surroundings.start()
    await surroundings.connect(1, 0, max_rd_atomic=0, path_mtu=1)
    bad = [
        dict(operation=3, length=4),
        dict(operation=4, length=16),
        dict(operation=2, length=8),
        dict(operation=1, length=(1 << 31) + 1),
        dict(operation=1, length=(1 << 30) + 1),
    ]
    for request in bad:
        surroundings.posts.append(dict(qp=1, id=1, signaled=1, lkey=LKEY) | request)
    await surroundings.settle()
    assert dict(surroundings.counters) == {"post_invalid": len(bad)}
    depth = constant("SendQueueDepth")
    for number in range(depth + 2):
        surroundings.posts.append(dict(qp=1, id=number, operation=1, signaled=1, lkey=LKEY, length=8))
    await surroundings.settle()
    assert surroundings.counters["post_overflow"] == 2
    assert len(surroundings.transmitted) == depth
    surroundings.header(1, 0x11, depth - 1, syndrome=0x1F)
    await surroundings.settle()
    assert [completion["id"] for completion in surroundings.completions] == list(range(depth))


@cocotb.test()
async def places_that_are_used_again_do_not_confuse_going_back(dut):
    """After going back, the search for the cursor's request meets slots that new requests have overwritten."""
    surroundings = Bench(dut)
    await surroundings.start()
    await surroundings.connect(3, 0)
    depth = constant("SendQueueDepth")

    def post(number):
        surroundings.posts.append(
            dict(qp=3, id=number, operation=1, signaled=1, lkey=LKEY, length=8, local_address=64 * number)
        )

    for number in range(depth):
        post(number)
    await surroundings.settle()
    assert len(surroundings.transmitted) == depth
    # The peer answers the first request with an RNR NAK, and then acknowledges most of the requests.
    surroundings.header(3, 0x11, 0, syndrome=0x2C)
    await surroundings.settle()
    surroundings.transmitted.clear()
    surroundings.header(3, 0x11, 49, syndrome=0x1F)
    posted = depth
    for _ in range(1_500):
        await surroundings.cycle()
        while posted < depth + len(surroundings.completions):
            post(posted)
            posted += 1
    assert [completion["id"] for completion in surroundings.completions] == list(range(50))
    assert [packet["psn"] for packet in surroundings.transmitted] == list(range(50, depth + 50))
    for packet in surroundings.transmitted:
        again = packet["psn"] < depth
        assert packet["bytes"] == 8 and packet["opcode"] == 0x0A
        assert packet["source"]["retransmission"] == again
        if not again:
            assert packet["source_address"] == 64 * packet["psn"]


def posted(**values):
    return dict(operation=1, signaled=1, lkey=LKEY, length=8) | values


def sent(surroundings):
    """The PSNs that have been sent since the last call."""
    psns = [packet["psn"] for packet in surroundings.transmitted]
    surroundings.transmitted.clear()
    return psns


@cocotb.test()
async def sequence_errors_do_not_end_the_wait_for_a_receiver(dut):
    surroundings = Bench(dut)
    await surroundings.start()
    # One retry is allowed, so the second retry would end the queue pair.
    await surroundings.connect(3, 100, retry_count=1)
    surroundings.posts.append(posted(qp=3, id=1, operation=0, length=300))
    surroundings.posts.append(posted(qp=3, id=2, operation=2, length=300))
    await surroundings.settle()
    assert sent(surroundings) == [100, 101, 102]
    for round_ in range(3):
        # As Linux's soft RoCE does, the responder also refuses the second packet and those behind it.
        surroundings.header(3, 0x11, 100, syndrome=0x2C)
        surroundings.header(3, 0x11, 100, syndrome=0x60)
        surroundings.header(3, 0x11, 100, syndrome=0x60)
        began = surroundings.now
        await surroundings.settle()
        assert not sent(surroundings)
        assert await surroundings.pass_time()
        assert surroundings.now - began >= 160_000
        await surroundings.settle()
        assert sent(surroundings) == [100, 101, 102]
    assert dict(surroundings.counters) == {
        "rdma_sends": 1, "rcvd_pkts": 9, "rcvd_rnr_err": 3, "rcvd_seq_err": 6, "completer_retry_err": 3,
    }
    # All requests before the NAK's PSN have been executed, so the wait is over and the NAK is processed.
    surroundings.header(3, 0x11, 100, syndrome=0x2C)
    surroundings.header(3, 0x11, 101, syndrome=0x60)
    await surroundings.settle()
    assert sent(surroundings) == [101, 102]
    surroundings.header(3, 0x11, 101, syndrome=0x1F)
    surroundings.header(3, 0x0D, 102, payload_bytes=256)
    surroundings.header(3, 0x0F, 103, payload_bytes=44)
    await surroundings.settle()
    assert [(c["id"], c["status"]) for c in surroundings.completions] == [(1, 0), (2, 0)]


@cocotb.test()
async def missing_responses_do_not_end_the_wait_for_a_receiver(dut):
    surroundings = Bench(dut)
    await surroundings.start()
    await surroundings.connect(3, 100, retry_count=0)
    surroundings.posts.append(posted(qp=3, id=1, operation=2, length=8))
    surroundings.posts.append(posted(qp=3, id=2, operation=0, length=8))
    surroundings.posts.append(posted(qp=3, id=3, operation=2, length=8))
    await surroundings.settle()
    sent(surroundings)
    # Unusual, but a NAK of the READ: the missing response is then known, and the wait continues.
    surroundings.header(3, 0x11, 100, syndrome=0x2C)
    surroundings.header(3, 0x11, 101, syndrome=0x1F)
    surroundings.header(3, 0x10, 102, payload_bytes=8)
    surroundings.header(3, 0x11, 102, syndrome=0x60)
    await surroundings.settle()
    assert not sent(surroundings) and not surroundings.completions
    assert dict(surroundings.counters) == {
        "rdma_sends": 1, "rcvd_pkts": 4, "rcvd_rnr_err": 1, "completer_retry_err": 1,
    }
    assert await surroundings.pass_time()
    await surroundings.settle()
    assert sent(surroundings) == [100, 101, 102]


@cocotb.test()
async def a_stale_stream_spends_one_retry(dut):
    surroundings = Bench(dut)
    await surroundings.start()
    wait = 1024 << 4
    await surroundings.connect(3, 100, timeout=4, retry_count=2)
    surroundings.posts.append(posted(qp=3, id=1, operation=2, length=20 * 256))
    await surroundings.settle()
    assert sent(surroundings) == [100]

    async def deadline():
        while not int(dut.earliest_valid_o.value):
            await surroundings.cycle()
        return int(dut.earliest_o.value)

    # The first response is lost, which the second shows. Each further response of the stream restarts the timer.
    surroundings.header(3, 0x0E, 101, payload_bytes=256)
    await surroundings.settle()
    assert sent(surroundings) == [100]
    for psn in range(102, 108):
        surroundings.jump = wait * 3 // 4
        surroundings.header(3, 0x0E, psn, payload_bytes=256)
        arrived = surroundings.now + surroundings.jump
        await surroundings.settle()
        assert not sent(surroundings)
        assert 0 <= await deadline() - arrived - wait < 30
    # The repeated request is lost, too: the stream ends, and the time-out expires.
    assert await surroundings.pass_time()
    await surroundings.settle()
    assert sent(surroundings) == [100]
    # Late packets of the old stream cost no other retry, whether they are responses or acknowledgements.
    surroundings.header(3, 0x0E, 110, payload_bytes=256)
    surroundings.header(3, 0x11, 119, syndrome=0x1F)
    await surroundings.settle()
    assert not sent(surroundings)
    assert dict(surroundings.counters) == {
        "rcvd_pkts": 9, "implied_nak_seq_err": 1, "ack_timeout": 1, "completer_retry_err": 2,
    }
    # Only progress makes another response the missing one.
    surroundings.header(3, 0x0D, 100, payload_bytes=256)
    surroundings.header(3, 0x0E, 102, payload_bytes=256)
    await surroundings.settle()
    assert sent(surroundings) == [101]
    # Without any response: time-outs, and then the failure.
    for _ in range(2):
        assert await surroundings.pass_time()
        await surroundings.settle()
    assert [(c["id"], c["status"]) for c in surroundings.completions] == [(1, 12)]


@cocotb.test()
async def a_time_out_without_a_missing_response_leaves_the_next_one_to_be_found(dut):
    surroundings = Bench(dut)
    await surroundings.start()
    await surroundings.connect(3, 100, timeout=4)
    # When the requester goes back for the WRITE, it also repeats the READ behind it.
    surroundings.posts.append(posted(qp=3, id=1))
    await surroundings.settle()
    assert await surroundings.pass_time()
    surroundings.posts.append(posted(qp=3, id=2, operation=2, length=300))
    await surroundings.settle()
    assert sent(surroundings) == [100, 100, 101]
    surroundings.header(3, 0x0F, 102, payload_bytes=44)
    await surroundings.settle()
    assert sent(surroundings) == [101], "the time-out was before it"
    assert await surroundings.pass_time()
    await surroundings.settle()
    assert sent(surroundings) == [101]
    surroundings.posts.append(posted(qp=3, id=3))
    surroundings.posts.append(posted(qp=3, id=4, operation=2, length=300))
    surroundings.header(3, 0x0D, 101, payload_bytes=256)
    surroundings.header(3, 0x0F, 102, payload_bytes=44)
    await surroundings.settle()
    assert sent(surroundings) == [103, 104]
    assert await surroundings.pass_time()
    await surroundings.settle()
    assert sent(surroundings) == [103, 104]
    surroundings.header(3, 0x0F, 105, payload_bytes=44)
    await surroundings.settle()
    assert not sent(surroundings)
    surroundings.header(3, 0x0F, 105, payload_bytes=44)
    await surroundings.settle()
    assert sent(surroundings) == [104], "it has been asked for again, and so has the one before it"
    assert [(c["id"], c["status"]) for c in surroundings.completions] == [(1, 0), (2, 0), (3, 0)]


def respond(surroundings, *psns, length=256):
    """Responses of a peer that answers for a part of a READ without ending its answer to the whole."""
    for psn in psns:
        surroundings.header(3, 0x0E, psn, payload_bytes=length, acknowledge_request=1)


def requested(surroundings):
    """The PSNs and lengths of the READs that have been sent since the last call."""
    reads = [(packet["psn"], packet["length"]) for packet in surroundings.transmitted]
    surroundings.transmitted.clear()
    return reads


@cocotb.test()
async def only_missing_responses_are_requested_again(dut):
    surroundings = Bench(dut)
    await surroundings.start()
    await surroundings.connect(3, 100, max_rd_atomic=16)
    for number in range(4):
        surroundings.posts.append(
            posted(qp=3, id=number, operation=2, length=3 * 256, local_address=0x1000 * number)
        )
    await surroundings.settle()
    assert sent(surroundings) == [100, 103, 106, 109]
    # Responses are missing in each READ: in the middle, at the end, all of them, in the middle.
    respond(surroundings, 100, 102, 103, 104, 109, 111, 109)
    await surroundings.settle()
    assert requested(surroundings) == [(101, 256)]
    respond(surroundings, 101)
    await surroundings.settle()
    assert requested(surroundings) == [(105, 256)]
    respond(surroundings, 105)
    await surroundings.settle()
    assert requested(surroundings) == [(106, 3 * 256)]
    respond(surroundings, 106, 107)
    await surroundings.settle()
    assert not requested(surroundings), "the third is on its way"
    respond(surroundings, 108)
    await surroundings.settle()
    assert requested(surroundings) == [(110, 256)]
    respond(surroundings, 110)
    await surroundings.settle()
    assert [(c["id"], c["status"]) for c in surroundings.completions] == [(number, 0) for number in range(4)]
    places = [verdict["address"] for verdict in surroundings.verdicts if verdict["place"]]
    assert sorted(places) == [0x1000 * read + 256 * part for read in range(4) for part in range(3)]
    assert surroundings.counters["implied_nak_seq_err"] == surroundings.counters["completer_retry_err"] == 4


@cocotb.test()
async def only_a_lost_request_is_sent_again_to_a_peer_that_keeps_the_others(dut):
    surroundings = Bench(dut)
    await surroundings.start()
    await surroundings.connect(3, 100, max_rd_atomic=16)
    for number in range(3):
        surroundings.posts.append(posted(qp=3, id=number, length=3 * 256))
    surroundings.posts.append(posted(qp=3, id=3, operation=2, length=300))
    surroundings.posts.append(posted(qp=3, id=4, operation=0, length=8))
    await surroundings.settle()
    assert sent(surroundings) == [*range(100, 110), 111]

    async def refuse(psn, **values):
        surroundings.header(3, 0x11, psn, syndrome=0x60, **values)
        await surroundings.settle()
        return [(OPCODES[packet["opcode"]], packet["psn"]) for packet in surroundings.transmitted]

    # Its request is not the oldest one that is queued, and the packet is in its middle, its end, and all of it.
    assert await refuse(104, acknowledge_request=1) == [("WRITE_MIDDLE", 104)]
    assert surroundings.transmitted[0]["acknowledge_request"]
    surroundings.transmitted.clear()
    assert await refuse(108, acknowledge_request=1) == [("WRITE_LAST", 108)]
    surroundings.transmitted.clear()
    assert await refuse(109, acknowledge_request=1) == [("READ_REQUEST", 109)]
    assert surroundings.transmitted[0]["length"] == 300
    surroundings.transmitted.clear()
    # What a second peer does not keep is sent again.
    assert await refuse(109) == [("READ_REQUEST", 109), ("SEND_ONLY", 111)]
    surroundings.transmitted.clear()
    # The requester has gone back, and is told before it has sent the packet: it sends it once.
    surroundings.header(3, 0x11, 109, syndrome=0x60)
    assert await refuse(109, acknowledge_request=1) == [("READ_REQUEST", 109), ("SEND_ONLY", 111)]
    respond(surroundings, 109)
    respond(surroundings, 110, length=44)
    surroundings.header(3, 0x11, 111, syndrome=0x1F)
    await surroundings.settle()
    assert [(c["id"], c["status"]) for c in surroundings.completions] == [(number, 0) for number in range(5)]


@cocotb.test()
async def responses_are_stored_up_to_64_behind_the_missing_one(dut):
    surroundings = Bench(dut)
    await surroundings.start()
    await surroundings.connect(3, 100)
    surroundings.posts.append(posted(qp=3, id=1, operation=2, length=100 * 256))
    await surroundings.settle()
    assert sent(surroundings) == [100]
    respond(surroundings, *range(101, 170))
    await surroundings.settle()
    assert requested(surroundings) == [(100, 256)]
    assert [verdict["place"] for verdict in surroundings.verdicts] == [1] * 63 + [0] * 6
    respond(surroundings, 100)
    await surroundings.settle()
    assert not requested(surroundings), "nothing tells yet that more is missing"
    respond(surroundings, *range(170, 200))
    await surroundings.settle()
    assert requested(surroundings) == [(164, 6 * 256)]
    respond(surroundings, *range(164, 170))
    await surroundings.settle()
    assert [(c["id"], c["status"]) for c in surroundings.completions] == [(1, 0)]


@cocotb.test()
async def a_response_waits_for_all_earlier_reads_of_its_memory(dut):
    surroundings = Bench(dut)
    await surroundings.start()
    await surroundings.connect(3, 100, max_rd_atomic=16)
    for number, address in enumerate((0x1000, 0x2000, 0x10C0, 0x3000)):
        surroundings.posts.append(posted(qp=3, id=number, operation=2, length=200, local_address=address))
    await surroundings.settle()
    assert sent(surroundings) == [100, 101, 102, 103]
    respond(surroundings, 101, 102, 103, length=200)
    await surroundings.settle()
    assert [verdict["place"] for verdict in surroundings.verdicts] == [1, 0, 1], "the third READ writes where the first does"
    assert requested(surroundings) == [(100, 200)]
    respond(surroundings, 100, length=200)
    await surroundings.settle()
    assert requested(surroundings) == [(102, 200)]
    respond(surroundings, 102, length=200)
    await surroundings.settle()
    assert [(c["id"], c["status"]) for c in surroundings.completions] == [(number, 0) for number in range(4)]


@cocotb.test()
async def time_outs_follow_what_was_measured(dut):
    surroundings = Bench(dut)
    await surroundings.start()
    ceiling = 1024 << 8
    await surroundings.connect(3, 100, timeout=8, retry_count=1)

    async def wait(since):
        while not int(dut.earliest_valid_o.value):
            await surroundings.cycle()
        return int(dut.earliest_o.value) - since

    async def write(id, psn, answered_after):
        surroundings.posts.append(posted(qp=3, id=id))
        await surroundings.settle()
        assert sent(surroundings) == [psn]
        surroundings.jump = answered_after
        if answered_after:
            await surroundings.cycle()
            surroundings.header(3, 0x11, psn, syndrome=0x1F)
            await surroundings.settle()

    async def expire():
        assert await surroundings.pass_time()
        await surroundings.settle()

    # Initially no round trip is known, and a packet that was sent twice is not measured.
    start = surroundings.now
    await write(1, 100, 0)
    assert 0 <= await wait(start) - ceiling < 40
    await expire()
    assert sent(surroundings) == [100]
    surroundings.header(3, 0x11, 100, syndrome=0x1F)
    await surroundings.settle()
    start = surroundings.now
    await write(2, 101, 0)
    assert 0 <= await wait(start) - ceiling < 40
    surroundings.header(3, 0x11, 101, syndrome=0x1F)
    await surroundings.settle()
    # That round trip was far shorter than the shortest time-out; the next one is longer.
    start = surroundings.now
    await write(3, 102, 8000)
    start = surroundings.now
    await write(4, 103, 0)
    longer = await wait(start)
    assert 8000 < longer < 12000
    # Each time-out doubles the next. A time-out counts as a retry only when it has reached the attributes' time-out.
    for exponent in range(1, 12):
        start = surroundings.now
        await expire()
        assert sent(surroundings) == [103]
        assert not surroundings.completions[3:]
        expected = longer << exponent
        since = surroundings.now
        if expected >= ceiling:
            break
        # The scanner adds up to one round.
        assert expected - 1200 < await wait(since) <= expected
    assert ceiling - 1200 < await wait(surroundings.now) <= ceiling
    await expire()
    assert sent(surroundings) == [103], "the one attempt"
    await expire()
    assert [(c["id"], c["status"]) for c in surroundings.completions] == [(1, 0), (2, 0), (3, 0), (4, 12)]


@cocotb.test()
async def codes_stand_for_the_times_of_the_specification(dut):
    surroundings = Bench(dut)
    await surroundings.start()
    tens = [
        65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072,
        4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
    ]  # fmt: skip
    for code in range(32):
        qp = 64 + code
        await surroundings.connect(qp, 0, timeout=code)
        surroundings.posts.append(dict(qp=qp, id=1, operation=0, signaled=1, lkey=LKEY, length=8))
        sent = surroundings.now
        await surroundings.settle()
        # Finding the earliest deadline takes the scanner a round.
        for wait in (1024 << code if code else None, tens[code] * 2500):
            if wait is not None and code in (0, 1, 12, 14, 31):
                while not int(dut.earliest_valid_o.value):
                    await surroundings.cycle()
                late = int(dut.earliest_o.value) - sent - wait
                assert 0 <= late < 20, (code, late)
            elif wait is not None:
                late = int(dut.u_timers.set_deadline_i.value) - sent - wait
                assert 0 <= late < 20, (code, late)
            else:
                assert not int(dut.armed_o.value)
            surroundings.header(qp, 0x11, 0, syndrome=0x20 | code)
            sent = surroundings.now
            await surroundings.settle()
        await surroundings.control("ControlReset", qp)


def test_request_side():
    bench.run("request_side", SOURCES, __file__)


def test_request_side_with_a_small_window(monkeypatch):
    monkeypatch.setenv(SMALL_WINDOW, "1")
    monkeypatch.setenv("COCOTB_TEST_FILTER", "conversations|everything")
    bench.run("request_side", SOURCES, __file__, {"WindowLimit": 2, "AdditiveIncrease": 1})
