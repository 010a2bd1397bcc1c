"""request_side: the golden conversations of the soft transport, and random traffic against a model of the peer."""

import itertools
import pathlib
import random
import re
from collections import Counter, deque

import cocotb

import bench
from request_side_bench import EVENTS, LKEY, Bench, Region
from structs import constant

SCRIPTS = pathlib.Path(__file__).parents[2] / "crates/rdma/tests/scripts"
SOURCES = [
    "weft_pkg.sv",
    "stream/fifo.sv",
    "stream/ram.sv",
    "rdma/scheduler.sv",
    "rdma/timers.sv",
    "rdma/send_queue.sv",
    "rdma/congestion.sv",
    "rdma/completer.sv",
    "rdma/request_control.sv",
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
    """A packet in one line, as the scripts print it."""
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
    """Plays side A of a script: side B is what the script says that it answered."""

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
        elif verb in ("run", "round"):
            await self.converse(output)
        elif verb == "counters" and side == "A":
            expected = {name: int(value) for name, value in (line.split() for line in output)}
            expected = {name: value for name, value in expected.items() if name in EVENTS}
            # The script's receive queue is the responder's, and so are its refusals.
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
        """Completions that follow from a post at once."""
        expected = [line[2:] for line in output if line.startswith("A completes")]
        if not expected:
            return
        await self.bench.settle()
        assert [describe_completion(c) for c in self.bench.completions] == expected
        self.bench.completions.clear()

    def answer(self, words):
        """The header of a response of B."""
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
                # What has been sent so far was not caused by these answers.
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
        # Completions of receive requests are the responder's.
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
    ).split()
    for index, name in enumerate(names):
        surroundings = Bench(dut)
        await surroundings.start(clock=index == 0)
        dut._log.info("script %s", name)
        await Script(name, surroundings).play()


def test_request_side():
    bench.run("request_side", SOURCES, __file__)
