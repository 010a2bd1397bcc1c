"""Reference model of the responder, after crates/rdma/src/queue_pair/responder, with 64-bit sequence numbers."""

from collections import deque
from dataclasses import dataclass, field

from structs import constant

ROUND = 1 << 24
MASK = ROUND - 1
RESET, INIT, READY, ERROR = range(4)
LOCAL_WRITE, REMOTE_WRITE, REMOTE_READ, REMOTE_ATOMIC = 1, 2, 4, 8
HOST = 3
GRANTED, KEY, DOMAIN, BOUNDS, FORBIDDEN = range(5)
MESSAGE_BYTES_MAX = 1 << 31

FIRST, MIDDLE, LAST, ONLY = "first", "middle", "last", "only"
OPCODES = {
    0x00: ("send", FIRST, False), 0x01: ("send", MIDDLE, False), 0x02: ("send", LAST, False),
    0x03: ("send", LAST, True), 0x04: ("send", ONLY, False), 0x05: ("send", ONLY, True),
    0x06: ("write", FIRST, False), 0x07: ("write", MIDDLE, False), 0x08: ("write", LAST, False),
    0x09: ("write", LAST, True), 0x0A: ("write", ONLY, False), 0x0B: ("write", ONLY, True),
    0x0C: ("read", ONLY, False), 0x13: ("compare", ONLY, False), 0x14: ("add", ONLY, False),
}


@dataclass
class Region:
    lkey: int
    rkey: int
    base: int
    length: int
    access: int
    domain: int = 0
    target: int = HOST
    write_through: int = 0
    rpc: int = 0
    slot: int = 0


def check(regions, remote, key, domain, address, length, needs):
    """The verdict of the region check, and the region if the key is known."""
    region = regions.get(key % constant("Regions"))
    if region is None or (region.rkey if remote else region.lkey) != key:
        return KEY, None
    if region.domain != domain:
        return DOMAIN, region
    if not region.base <= address <= address + length <= region.base + region.length:
        return BOUNDS, region
    if region.access & needs != needs:
        return FORBIDDEN, region
    return GRANTED, region


@dataclass
class QueuePair:
    state: int = RESET
    access: int = 0
    receives: deque = field(default_factory=deque)
    expected: int = 0
    msn: int = 0
    inbound: tuple = None
    # "repair" and "go back": reported, and what the peer does; or "not ready".
    gap: str | None = None
    # A packet behind the gap was not kept.
    overflow: bool = False
    # A sequence number, or "repeated": any packet that is kept, or the one right behind the gap.
    witness: int | str | None = None
    early: int = 0
    # Sequence numbers of packets behind a gap that are kept, without one that is next in turn.
    kept: set = field(default_factory=set)
    saved: list = field(default_factory=list)
    resource: int = 0
    # READs and atomics whose first response has not been sent.
    waiting: int = 0


class Refusal(Exception):
    def __init__(self, kind, code=None, status=None):
        super().__init__(kind)
        self.kind, self.code, self.status = kind, code, status


INVALID = Refusal("nak", "SyndromeInvalidRequest")
SENT = {
    "SyndromeInvalidRequest": "sent_invalid_request",
    "SyndromeRemoteAccess": "sent_access_error",
    "SyndromeRemoteOperational": "sent_operational_error",
}


class Model:
    def __init__(self, table, host_credits, rpc_credits, partition=0xFFFF):
        self.table = table
        self.pairs = {}
        self.host_credits = host_credits
        self.rpc_credits = self.rpc_limit = rpc_credits
        self.partition = partition
        self.events = {}
        self.fails = []
        # Packets behind gaps are kept.
        self.keeps = False

    def pair(self, index):
        return self.pairs.setdefault(index, QueuePair())

    def count(self, name, by=1):
        self.events[name] = self.events.get(name, 0) + by

    # Changes of state. Each returns the verdicts that it causes.

    def control(self, index, operation, argument):
        pair = self.pair(index)
        if operation == "Reset":
            kept = {name: getattr(pair, name) for name in ("expected", "waiting")}
            self.pairs[index] = QueuePair(**kept)
        elif operation == "Init" and pair.state in (RESET, INIT):
            pair.state, pair.access = INIT, argument & 15
        elif operation == "Receive" and pair.state == INIT:
            pair.state = READY
            pair.expected = pair.early = ROUND + argument
            pair.msn, pair.inbound, pair.gap, pair.overflow = 0, None, None, False
            pair.witness = None
            pair.saved, pair.resource = [], 0
        elif operation == "Access":
            if pair.state in (INIT, READY):
                pair.access = argument & 15
            return [{"packet": 0, "marker": 1, "qp": index}]
        elif operation == "Error" or (operation == "Fail" and pair.state == READY):
            return self.enter_error(index)
        return []

    def enter_error(self, index):
        pair = self.pair(index)
        pair.state, pair.inbound = ERROR, None
        pair.kept.clear()
        flushed = [
            {"packet": 0, "qp": index, "complete": {"id": receive["id"], "status": constant("StatusFlushed")}}
            for receive in pair.receives
        ]
        pair.receives.clear()
        return flushed

    def post(self, receive):
        pair = self.pair(receive["qp"])
        if pair.state == RESET or len(pair.receives) == constant("ReceiveQueueDepth"):
            self.count("drop_receive_request")
            return []
        pair.receives.append(receive)
        return self.enter_error(receive["qp"]) if pair.state == ERROR else []

    # Packets.

    def header(self, header, regions, reserved=False, again=False, deferred=0):
        """Processes a packet. Returns its verdict, and those of receive requests that it flushes.

        `reserved`: there is a place to keep it in. `again`: it has been kept until now; `deferred`: with the
        acknowledgement of the one before it.
        """
        if not again:
            self.count("rcvd_pkts")
        self.reserved, self.again, self.deferred = reserved, again, deferred
        index = header["destination_qp"] % constant("QueuePairs")
        self.verdict = {"packet": 1, "qp": index, "place": "PlaceNothing"}
        flushes = self.receive(index, header, regions) or []
        return [self.verdict, *flushes]

    def receive(self, index, header, regions):
        if header["opcode"] not in OPCODES:
            return self.count("drop_malformed")
        setup = self.table.get(index, {"number": 0})
        if setup["number"] != header["destination_qp"] or header["destination_qp"] >> 9 == 0:
            return self.count("drop_unknown_queue_pair")
        key = header["partition_key"]
        if (key ^ self.partition) & 0x7FFF or not (key | self.partition) & 0x8000:
            return self.count("drop_partition_key")
        pair = self.pair(index)
        if pair.state != READY:
            return self.count("drop_wrong_state")
        if setup["destination"] != header["source"]:
            return self.count("drop_wrong_source")
        self.count("congestion_marks", header["marked"])
        ahead = (header["psn"] - pair.expected) & MASK
        sequence = pair.expected + ahead if ahead < ROUND // 2 else pair.expected + ahead - ROUND
        self.setup, self.current, self.regions, self.index = setup, pair, regions, index
        if self.again and sequence != pair.expected:
            return self.acknowledge_before(sequence)
        if sequence > pair.expected:
            return self.ahead(sequence, header)
        if sequence < pair.expected:
            return self.duplicate(sequence, header)
        place = {}
        gap = pair.gap
        try:
            packets, answer = self.carry_out(header, place)
        except Refusal as refusal:
            return self.refuse(refusal)
        self.verdict.update(place)
        first = pair.expected
        pair.expected += packets
        if self.again and self.deferred:
            self.count("ack_deferred")
        following = pair.expected in pair.kept
        pair.kept.discard(pair.expected)
        behind = not following and gap is not None and pair.expected < pair.early
        report = behind and gap == "repair"
        if report:
            pair.gap, pair.witness = self.reported(pair.kept), "repeated"
        elif not following:
            pair.gap, pair.overflow = None, False
        hint = constant("SyndromeSequenceError" if behind else "SyndromeAck")
        kind, fields = answer
        if kind == "AnswerAcknowledge" and following:
            return None
        if kind == "AnswerNone" and report:
            kind = "AnswerAcknowledge"
        if kind != "AnswerNone":
            kept = {"kept": int(bool(pair.kept))} if report else {}
            self.answer(kind, first, next=pair.expected & MASK, syndrome=hint, report=int(report), **kept, **fields)
        return None

    def ahead(self, sequence, header):
        pair = self.current
        pair.early = max(pair.early, sequence + 1)
        self.count("out_of_seq_request")
        keepable = self.keeps and pair.gap != "not ready" and header["payload_bytes"] <= 128 << self.setup["path_mtu"]
        found = sequence in pair.kept
        assert not (pair.overflow and self.reserved)
        kept = keepable and (found or self.reserved)
        pair.overflow |= keepable and not kept
        if kept and not found:
            pair.kept.add(sequence)
            if header["payload_bytes"]:
                self.verdict.update(
                    place="PlaceReorder", bytes=header["payload_bytes"], offset=header["payload_offset"]
                )
        repeated = pair.witness == "repeated" and (found or sequence == pair.expected + 1)
        if pair.gap is None or pair.witness == sequence or repeated:
            pair.gap, pair.witness = self.reported(kept), sequence
            self.answer("AnswerRefuse", pair.expected, syndrome=constant("SyndromeSequenceError"), kept=int(kept))
        elif not kept:
            self.count("drop_out_of_sequence")

    @staticmethod
    def reported(kept):
        """What the peer does when a gap is reported with this promise."""
        return "repair" if kept else "go back"

    def acknowledge_before(self, sequence):
        """Sends the acknowledgement that was left to a packet which is not executed."""
        if self.deferred:
            self.answer("AnswerAcknowledge", sequence - 1, syndrome=constant("SyndromeAck"))

    def refuse(self, refusal):
        pair = self.current
        if refusal.kind == "drop":
            pair.witness = None
            if self.again:
                pair.gap, pair.overflow = None, False
                self.acknowledge_before(pair.expected)
            return None
        if refusal.kind == "not ready":
            self.count("send_rnr_err")
            pair.gap, pair.witness = "not ready", None
            pair.kept.clear()
            self.answer("AnswerRefuse", pair.expected, syndrome=0x20 | self.setup["min_rnr_timer"])
            return None
        self.count(SENT[refusal.code])
        self.answer("AnswerRefuse", pair.expected, syndrome=constant(refusal.code))
        if refusal.status:
            receive = pair.receives.popleft()
            self.verdict["complete"] = {"id": receive["id"], "status": constant(refusal.status)}
        self.fails.append(self.index)
        return self.enter_error(self.index)

    def answer(self, kind, sequence, duplicate=0, **fields):
        pair = self.current
        self.verdict["answer"] = {
            "kind": kind, "duplicate": duplicate, "psn": sequence & MASK, "msn": pair.msn,
            **fields,
        }

    def duplicate(self, sequence, header):
        pair = self.current
        self.count("duplicate_request")
        kind = OPCODES[header["opcode"]][0]
        if kind in ("send", "write"):
            # The acknowledgement must not reach a READ or atomic behind the duplicate, whose response the requester
            # cannot have yet.
            behind = min((saved["first"] for saved in pair.saved if saved["first"] > sequence), default=pair.expected)
            self.answer("AnswerAcknowledge", behind - 1, duplicate=1, syndrome=constant("SyndromeAck"))
            return
        for saved in reversed(pair.saved):
            if saved["first"] <= sequence < saved["first"] + saved["packets"]:
                break
        else:
            return self.count("drop_unknown_duplicate")
        mtu = 128 << self.setup["path_mtu"]
        offset = (sequence - saved["first"]) * mtu
        if saved["kind"] == "read" and kind == "read":
            part = (
                header["rkey"] == saved["rkey"]
                and header["address"] == (saved["address"] + offset) % (1 << 64)
                and header["length"] <= saved["length"] - offset
            )
            if not part:
                return self.count("drop_unknown_duplicate")
        elif saved["kind"] == "read" or kind == "read":
            return self.count("drop_unknown_duplicate")
        fields = {"resource": saved["resource"]}
        if kind == "read":
            fields.update({name: header[name] for name in ("address", "rkey", "length")})
        answer = "AnswerRead" if kind == "read" else "AnswerAtomic"
        self.answer(answer, sequence, duplicate=1, syndrome=constant("SyndromeAck"), **fields)
        return None

    # Executing a packet that has the expected PSN.

    def carry_out(self, header, place):
        kind, position, _ = OPCODES[header["opcode"]]
        inbound = self.current.inbound
        starts = position in (FIRST, ONLY)
        if starts != (inbound is None):
            raise INVALID
        if not starts and inbound["kind"] != kind:
            raise INVALID
        if kind == "send":
            self.send(header, 0 if starts else inbound["done"], place)
        elif kind == "write":
            whole = None
            if starts:
                inbound = {**{name: header[name] for name in ("address", "rkey", "length")}, "done": 0}
                if header["length"]:
                    self.allow(REMOTE_WRITE)
                    whole = self.remote(header["address"], header["rkey"], header["length"], REMOTE_WRITE)
            self.write(header, inbound, whole, place)
        else:
            return self.respond(header, kind, place)
        return 1, ("AnswerAcknowledge" if header["acknowledge_request"] or self.deferred else "AnswerNone", {})

    def allow(self, needs):
        if self.current.access & needs != needs:
            self.count("violation_permission")
            raise INVALID

    def violation(self, verdict):
        names = {KEY: "key", DOMAIN: "domain", BOUNDS: "bounds", FORBIDDEN: "permission"}
        self.count(f"violation_{names[verdict]}")

    def remote(self, address, rkey, length, needs):
        verdict, region = check(self.regions, True, rkey, self.setup["domain"], address, length, needs)
        if verdict != GRANTED:
            self.violation(verdict)
            raise Refusal("nak", "SyndromeRemoteAccess")
        return region

    def payload_length(self, header):
        position = OPCODES[header["opcode"]][1]
        length, mtu = header["payload_bytes"], 128 << self.setup["path_mtu"]
        if position in (FIRST, MIDDLE):
            right = length == mtu
        else:
            right = length <= mtu and (length > 0 or position != LAST)
        if not right:
            raise INVALID

    def spend(self, region, length):
        if region.target != HOST or self.host_credits is None:
            return
        if self.host_credits < length:
            self.count("drop_no_credit")
            raise Refusal("drop")
        self.host_credits -= length

    def store(self, region, address, header, place, snoop):
        place.update(
            place="PlaceWrite", target=region.target, write_through=region.write_through, address=address,
            bytes=header["payload_bytes"], offset=header["payload_offset"], snoop=snoop,
        )

    def send(self, header, done, place):
        pair = self.current
        _, position, immediate = OPCODES[header["opcode"]]
        self.payload_length(header)
        if not pair.receives:
            raise Refusal("not ready")
        receive = pair.receives[0]
        length = header["payload_bytes"]
        if length > receive["length"] - done:
            raise Refusal("nak", "SyndromeInvalidRequest", "StatusLocalLength")
        if length:
            operational = Refusal("nak", "SyndromeRemoteOperational", "StatusLocalProtection")
            address = receive["address"] + done
            if address >> 64:
                raise operational
            verdict, region = check(
                self.regions, False, receive["lkey"], self.setup["domain"], address, length, LOCAL_WRITE
            )
            if verdict != GRANTED:
                self.violation(verdict)
                raise operational
            self.spend(region, length)
            self.store(region, address, header, place, 0)
        done += length
        if position in (LAST, ONLY):
            pair.inbound = None
            pair.msn = (pair.msn + 1) & MASK
            self.count("rdma_recvs")
            pair.receives.popleft()
            place["complete"] = {
                "id": receive["id"], "status": 0, "opcode": 128, "bytes": done, "has_immediate": int(immediate),
                **({"immediate": header["immediate"]} if immediate else {}),
            }
        else:
            pair.inbound = {"kind": "send", "done": done}

    def write(self, header, reth, whole, place):
        pair = self.current
        _, position, immediate = OPCODES[header["opcode"]]
        last = position in (LAST, ONLY)
        self.payload_length(header)
        length, done = header["payload_bytes"], reth["done"]
        rest = reth["length"] - done
        if not (length == rest if last else length < rest) or reth["length"] > MESSAGE_BYTES_MAX:
            raise INVALID
        address = (reth["address"] + done) % (1 << 64)
        if whole:
            region = whole
        elif length:
            self.allow(REMOTE_WRITE)
            region = self.remote(address, reth["rkey"], length, REMOTE_WRITE)
        else:
            verdict, region = check(self.regions, True, reth["rkey"], self.setup["domain"], address, 0, REMOTE_WRITE)
            if verdict != GRANTED or not pair.access & REMOTE_WRITE:
                region = None
        call = last and region is not None and region.rpc
        consumes = immediate and not call
        if consumes and not pair.receives:
            raise Refusal("not ready")
        if call and not self.rpc_credits:
            self.count("drop_rpc_queue_full")
            raise Refusal("drop")
        if length:
            self.spend(region, length)
            self.store(region, address, header, place, region.rpc)
        if not last:
            pair.inbound = {**reth, "kind": "write", "done": done + length}
            return
        pair.inbound = None
        pair.msn = (pair.msn + 1) & MASK
        word = {"immediate": header["immediate"]} if immediate else {}
        if call:
            self.rpc_credits -= 1
            self.count("rpc_calls")
            place["rpc"] = {
                "slot": region.slot, "qp": self.index, "target": region.target, "address": reth["address"],
                "length": reth["length"], "has_immediate": int(immediate), **word,
            }
        if consumes:
            receive = pair.receives.popleft()
            place["complete"] = {
                "id": receive["id"], "status": 0, "opcode": 129, "bytes": reth["length"], "has_immediate": 1, **word,
            }

    def respond(self, header, kind, place):
        pair = self.current
        if pair.waiting >= self.setup["max_dest_rd_atomic"]:
            raise INVALID
        packets = 1
        if kind == "read":
            if header["length"] > MESSAGE_BYTES_MAX:
                raise INVALID
            if header["length"]:
                self.allow(REMOTE_READ)
                self.remote(header["address"], header["rkey"], header["length"], REMOTE_READ)
            packets = max(1, -(-header["length"] // (128 << self.setup["path_mtu"])))
            fields = {name: header[name] for name in ("address", "rkey", "length")}
            answer = "AnswerRead", {**fields, "resource": pair.resource}
        else:
            self.allow(REMOTE_ATOMIC)
            if header["address"] % 8:
                raise INVALID
            region = self.remote(header["address"], header["rkey"], 8, REMOTE_ATOMIC)
            place.update(
                place="PlaceFetchAdd" if kind == "add" else "PlaceCompareSwap", target=region.target,
                write_through=region.write_through, address=header["address"], swap_or_add=header["swap_or_add"],
                **({"compare": header["compare"]} if kind == "compare" else {}),
            )
            answer = "AnswerAtomic", {"resource": pair.resource}
        pair.msn = (pair.msn + 1) & MASK
        saved = {name: header[name] for name in ("address", "rkey", "length")}
        saved.update(
            first=pair.expected, packets=packets, kind="read" if kind == "read" else "atomic", resource=pair.resource
        )
        pair.saved = [*pair.saved, saved][-self.setup["max_dest_rd_atomic"]:]
        pair.resource = (pair.resource + 1) % self.setup["max_dest_rd_atomic"]
        pair.waiting += 1
        return packets, answer
