#!/usr/bin/env python3
"""Checks a capture that Weft wrote with tools that share no code with it.

    check_wire.py CAPTURE.pcapng

scapy parses every frame and recomputes the IPv4, UDP and ICMP checksums and the ICRC; the frame that it
builds from the parsed fields must equal the original. Weft's own datagrams are parsed by a second
implementation of their layout, below. If tshark is installed, it must find every RoCE v2 packet well
formed and parse the same header fields as scapy. Prints `N frames checked`. A mismatch is printed and
makes the exit status 1, an unreadable capture 2.
"""

import pathlib
import re
import shutil
import struct
import subprocess
import sys
import zlib
from collections import Counter

from scapy.contrib.roce import AETH, BTH
from scapy.error import Scapy_Exception
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.l2 import ARP, Ether
from scapy.utils import RawPcapNgReader

ROCE_PORT = 4791
DATAGRAM_PORT = 4793

# Bytes of the extended headers behind the base transport header, by opcode of the reliable connection (InfiniBand
# specification, table 38): RETH 16, AtomicETH 28, AETH 4, AtomicAckETH 8, ImmDt 4.
EXTENDED_BYTES = {
    "SEND_FIRST": 0,
    "SEND_MIDDLE": 0,
    "SEND_LAST": 0,
    "SEND_LAST_WITH_IMMEDIATE": 4,
    "SEND_ONLY": 0,
    "SEND_ONLY_WITH_IMMEDIATE": 4,
    "RDMA_WRITE_FIRST": 16,
    "RDMA_WRITE_MIDDLE": 0,
    "RDMA_WRITE_LAST": 0,
    "RDMA_WRITE_LAST_WITH_IMMEDIATE": 4,
    "RDMA_WRITE_ONLY": 16,
    "RDMA_WRITE_ONLY_WITH_IMMEDIATE": 20,
    "RDMA_READ_REQUEST": 16,
    "RDMA_READ_RESPONSE_FIRST": 4,
    "RDMA_READ_RESPONSE_MIDDLE": 0,
    "RDMA_READ_RESPONSE_LAST": 4,
    "RDMA_READ_RESPONSE_ONLY": 4,
    "ACKNOWLEDGE": 4,
    "ATOMIC_ACKNOWLEDGE": 12,
    "COMPARE_SWAP": 28,
    "FETCH_ADD": 28,
}
WITHOUT_PAYLOAD = {"RDMA_READ_REQUEST", "ACKNOWLEDGE", "ATOMIC_ACKNOWLEDGE", "COMPARE_SWAP", "FETCH_ADD"}

# tshark's names of the fields that both tools parse, in the order of `roce_fields`.
TSHARK_FIELDS = [
    "infiniband.bth.opcode",
    "infiniband.bth.se",
    "infiniband.bth.m",
    "infiniband.bth.padcnt",
    "infiniband.bth.tver",
    "infiniband.bth.p_key",
    "infiniband.bth.destqp",
    "infiniband.bth.a",
    "infiniband.bth.psn",
    "infiniband.invariant.crc",
]


class Mismatch(Exception):
    """A frame has unexpected contents."""


def require(condition, message):
    if not condition:
        raise Mismatch(message)


def equal(what, found, expected):
    require(found == expected, f"{what}: found {found!r}, expected {expected!r}")


def require_whole(capture):
    """Walks the blocks, because scapy would accept a truncated file."""
    content = pathlib.Path(capture).read_bytes()
    at = 0
    while at < len(content):
        require(at + 12 <= len(content), "the file ends within a block")
        (length,) = struct.unpack_from("<I", content, at + 4)
        require(12 <= length <= len(content) - at, "the file ends within a block, or is not pcapng")
        equal("length behind a block", struct.unpack_from("<I", content, at + length - 4)[0], length)
        at += length


def check_metadata(metadata):
    """Checks the capture's metadata of a frame."""
    require(re.fullmatch(rb"[a-z]+\d+/port\d+", metadata.ifname or b""), f"interface {metadata.ifname!r}")
    equal("stamps in a second", metadata.tsresol, 1_000_000_000)
    require(metadata.direction in (1, 2), f"direction {metadata.direction!r}")


def check_frame(frame):
    """Checks one frame. Returns its kind, and its RoCE fields if it has any."""
    require(len(frame) >= 60, f"{len(frame)} bytes are too short for Ethernet")
    ether = Ether(frame)
    if ARP in ether:
        equal("ARP rebuilt", rebuilt(ARP(frame[14:42])), frame[14:42])
        return "ARP", None
    require(ether.type == 0x0800, f"unexpected EtherType {ether.type:#06x}")
    # Removes the padding, which is not part of the packet.
    packet = frame[14 : 14 + struct.unpack_from("!H", frame, 16)[0]]
    require(not any(frame[14 + len(packet) :]), "padding is not zero")
    ip = IP(packet)
    equal("IPv4 checksum", ip.chksum, recomputed(ip, IP))
    if ICMP in ip:
        equal("ICMP checksum", ip[ICMP].chksum, recomputed(ip, ICMP))
        equal("ICMP rebuilt", rebuilt(ip), packet)
        return "ICMP", None
    require(UDP in ip, f"unexpected protocol {ip.proto}")
    udp = ip[UDP]
    equal("UDP length", udp.len, len(packet) - 20)
    if udp.chksum != 0:
        equal("UDP checksum", udp.chksum, recomputed(ip, UDP))
    if udp.dport == ROCE_PORT:
        return "RoCE", check_roce(ip, packet)
    equal("UDP rebuilt", rebuilt(ip), packet)
    if udp.dport == DATAGRAM_PORT:
        check_datagram(packet[28:])
        return "datagram", None
    return "other UDP", None


def recomputed(ip, layer):
    """The checksum of this layer, recomputed by scapy."""
    copy = ip.copy()
    copy.getlayer(layer).chksum = None
    return type(ip)(bytes(copy)).getlayer(layer).chksum


def rebuilt(layer):
    """The bytes that scapy builds from the parsed fields, without its cached originals."""
    copy = layer.copy()
    part = copy
    while part:
        part.raw_packet_cache = None
        part = part.payload
    return bytes(copy)


def check_roce(ip, packet):
    """Checks a RoCE v2 packet. Returns the fields that are compared with tshark's."""
    bth = ip[BTH]
    body = packet[28 + 12 : -4]
    icrc = packet[-4:]
    equal("ICRC", icrc, bth.compute_icrc(b""))
    equal("RoCE rebuilt", rebuilt(ip), packet)
    equal("BTH version", bth.version, 0)
    equal("BTH reserved bits", (bth.resv6, bth.resv7), (0, 0))
    name = BTH.get_field(bth, "opcode").i2repr(bth, bth.opcode)
    if name.startswith("RC_"):
        operation = name.removeprefix("RC_")
        extended = EXTENDED_BYTES[operation]
        data = len(body) - extended - bth.padcount
        require(data >= 0, f"{name} with {len(body)} bytes behind its BTH")
        equal(f"{name}: pad count", bth.padcount, -data % 4)
        require(not any(body[len(body) - bth.padcount :]), f"{name}: pad is not zero")
        require(data == 0 or operation not in WITHOUT_PAYLOAD, f"{name} with {data} bytes of payload")
    if AETH in bth:
        equal("AETH", bytes(body[:4]), struct.pack("!I", bth[AETH].syndrome << 24 | bth[AETH].msn))
    return (
        bth.opcode,
        bth.solicited,
        bth.migreq,
        bth.padcount,
        bth.version,
        bth.pkey,
        bth.dqpn,
        bth.ackreq,
        bth.psn,
        int.from_bytes(icrc, "big"),
    )


def check_datagram(datagram):
    """Parses a Weft datagram; its layout is in the documentation of `weft_wire::datagram`."""
    require(len(datagram) >= 16, "a datagram shorter than its header and trailer")
    magic, version, messages, length, zero = struct.unpack_from("!2sBBHH", datagram)
    equal("datagram header", (magic, version, zero), (b"WF", 2, 0))
    equal("datagram bytes", length, len(datagram))
    trailer = len(datagram) - 8
    equal("datagram trailer", struct.unpack_from("!II", datagram, trailer), (0, zlib.crc32(datagram[:-4])))
    require(messages > 0, "a datagram without messages")
    at = 8
    for _ in range(messages):
        require(at + 8 <= trailer, "a message's header exceeds its datagram")
        _engine, _kind, length, zero = struct.unpack_from("!BBHI", datagram, at)
        equal("message reserved", zero, 0)
        end = at + 8 + length
        at += 8 + length + -length % 8
        require(at <= trailer, "a message exceeds its datagram")
        require(not any(datagram[end:at]), "message pad is not zero")
    equal("end of the last message", at, trailer)


def check_with_tshark(capture, roce):
    """Lets tshark parse the same packets. Returns its objections. `roce`: fields by frame number."""

    def tshark(*arguments):
        # The payload belongs to the user, so tshark must not interpret SENDs as NFS over RDMA.
        command = ["tshark", "-r", capture, "-n", "--disable-protocol", "rpcordma", *arguments]
        command += ["-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Mismatch(f"tshark: {done.stderr.strip()}")
        return done.stdout.splitlines()

    problems = []
    warning = 0x600000  # PI_WARN; errors have larger values
    for line in tshark("-Y", f"_ws.malformed || _ws.expert.severity >= {warning}"):
        problems.append(f"tshark objects to: {line.strip()}")
    fields = [argument for field in TSHARK_FIELDS for argument in ("-e", field)]
    read = {}
    for line in tshark("-Y", "infiniband", "-T", "fields", "-e", "frame.number", *fields):
        number, *values = line.split("\t")
        read[int(number)] = tuple(number_of(value) for value in values)
    for number in sorted(roce.keys() | read.keys()):
        if roce.get(number) != read.get(number):
            problems.append(f"frame {number}: scapy reads {roce.get(number)}, tshark {read.get(number)}")
    return problems


def number_of(text):
    """A number as tshark prints it: decimal, 0x… or True and False."""
    return int(text == "True") if text in ("True", "False") else int(text, 0)


def main():
    if len(sys.argv) != 2:
        print("usage: check_wire.py CAPTURE.pcapng", file=sys.stderr)
        return 2
    capture = sys.argv[1]
    try:
        require_whole(capture)
        with RawPcapNgReader(capture) as reader:
            captured = list(reader)
    except (OSError, Mismatch, Scapy_Exception) as error:
        print(f"cannot read {capture}: {error}", file=sys.stderr)
        return 2
    if not captured:
        print(f"{capture} holds no frame", file=sys.stderr)
        return 2

    problems = []
    kinds = Counter()
    roce = {}
    for number, (frame, metadata) in enumerate(captured, start=1):
        try:
            check_metadata(metadata)
            kind, fields = check_frame(frame)
        except (Mismatch, struct.error) as mismatch:
            problems.append(f"frame {number}: {mismatch}")
            continue
        kinds[kind] += 1
        if fields:
            roce[number] = fields
    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    print(f"{len(captured)} frames checked: {counts}")

    if shutil.which("tshark"):
        try:
            problems += check_with_tshark(capture, roce)
            print(f"tshark agrees on {len(roce)} RoCE v2 packets" if not problems else "tshark: see below")
        except Mismatch as mismatch:
            problems.append(str(mismatch))
    else:
        print("tshark not found, skipped")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
