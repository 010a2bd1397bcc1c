"""Frames for the tests of the receive path, and a model of the receiver after crates/wire and crates/nic."""

import struct
import zlib

HARDWARE = bytes.fromhex("020000000001")
PEER = bytes.fromhex("0200000000fe")
ADDRESS = bytes((10, 0, 0, 1))
PEER_ADDRESS = bytes((10, 0, 0, 2))
ROCE_PORT = 4791
FRAME_BYTES_MAX = 9216

# For each opcode: its extended headers, and whether a payload may follow (InfiniBand volume 1, table 38).
RETH, ATOMIC, AETH, ORIGINAL, IMMEDIATE = "RETH", "AtomicETH", "AETH", "AtomicAckETH", "ImmDt"
RESERVED = "reserved"
BYTES = {RETH: 16, ATOMIC: 28, AETH: 4, ORIGINAL: 8, IMMEDIATE: 4, RESERVED: 16}
OPCODES = {
    0x00: ((), True), 0x01: ((), True), 0x02: ((), True), 0x03: ((IMMEDIATE,), True), 0x04: ((), True),
    0x05: ((IMMEDIATE,), True), 0x06: ((RETH,), True), 0x07: ((), True), 0x08: ((), True),
    0x09: ((IMMEDIATE,), True), 0x0A: ((RETH,), True), 0x0B: ((RETH, IMMEDIATE), True), 0x0C: ((RETH,), False),
    0x0D: ((AETH,), True), 0x0E: ((), True), 0x0F: ((AETH,), True), 0x10: ((AETH,), True), 0x11: ((AETH,), False),
    0x12: ((AETH, ORIGINAL), False), 0x13: ((ATOMIC,), False), 0x14: ((ATOMIC,), False),
    0x81: ((RESERVED,), False),
}  # fmt: skip


def total(data):
    """The ones' complement sum of big-endian words (RFC 1071)."""
    data += bytes(len(data) % 2)
    value = sum(struct.unpack(f">{len(data) // 2}H", data))
    while value >> 16:
        value = (value & 0xFFFF) + (value >> 16)
    return value


def ethernet(payload, kind=0x0800, to=HARDWARE, source=PEER, pad=True):
    frame = to + source + struct.pack(">H", kind) + payload
    return frame + bytes(max(0, 60 - len(frame))) if pad else frame


def ipv4(payload, protocol, *, to=ADDRESS, source=PEER_ADDRESS, tos=0, identification=0, flags=0x4000, options=b"",
         total_bytes=None, version=4, words=None, break_sum=False):  # fmt: skip
    words = 5 + len(options) // 4 if words is None else words
    total_bytes = 20 + len(options) + len(payload) if total_bytes is None else total_bytes
    header = struct.pack(">BBHHHBBH4s4s", version << 4 | words, tos, total_bytes, identification, flags, 64, protocol,
                         0, source, to) + options  # fmt: skip
    checksum = ~total(header) & 0xFFFF ^ (1 if break_sum else 0)
    return header[:10] + struct.pack(">H", checksum) + header[12:] + payload


def udp(payload, port, source_port=0xC000, *, checksum=True, length=None, to=ADDRESS, source=PEER_ADDRESS, **fields):
    """An IPv4 packet with a UDP datagram; `checksum` may be the value to use."""
    length = 8 + len(payload) if length is None else length
    header = struct.pack(">HHHH", source_port, port, length, 0)
    if checksum is True:
        pseudo = source + to + struct.pack(">BBH", 0, 17, length)
        checksum = ~total(pseudo + header + payload[: max(0, length - 8)]) & 0xFFFF or 0xFFFF
    return ipv4(header[:6] + struct.pack(">H", checksum) + payload, 17, to=to, source=source, **fields)


def icmp(kind, code=0, payload=b"ping", break_sum=False, **fields):
    message = struct.pack(">BBHHH", kind, code, 0, 1, 2) + payload
    checksum = ~total(message) & 0xFFFF ^ (1 if break_sum else 0)
    return ipv4(message[:2] + struct.pack(">H", checksum) + message[4:], 1, **fields)


def arp(operation=1, hardware_type=1, protocol=0x0800, target=ADDRESS):
    return struct.pack(">HHBBH6s4s6s4s", hardware_type, protocol, 6, 4, operation, PEER, PEER_ADDRESS, bytes(6), target)


def bth(opcode, *, pad=0, psn=0, qp=0x11, key=0xFFFF, solicited=0, acknowledge=0, congestion=0, version=0):
    flags = solicited << 7 | pad << 4 | version
    return struct.pack(">BBHII", opcode, flags, key, congestion << 30 | qp, acknowledge << 31 | psn)


def icrc(packet):
    """The ICRC of an IPv4 packet with UDP and BTH but without the ICRC, whose length fields include it (annex
    A17.3.3)."""
    covered = bytearray(packet)
    for place in (1, 8, 10, 11, 26, 27, 32):
        covered[place] = 0xFF
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + bytes(covered)))


def roce(opcode, extended=b"", payload=b"", *, pad=None, trailing=b"", beyond=0, checksum=0, length=None, to_mac=HARDWARE,
         break_icrc=0, ip=None, **fields):  # fmt: skip
    """A RoCE v2 frame with `beyond` bytes of excess padding, and `trailing` bytes between the end of UDP and that
    of IPv4."""
    pad = -len(payload) % 4 if pad is None else pad
    packet = bth(opcode, pad=pad, **fields) + extended + payload + bytes(pad)
    ip = ip or {}
    if length is None:
        length = 8 + len(packet) + 4
    # UDP's checksum covers the ICRC, but the ICRC does not cover UDP's checksum.
    whole = udp(packet + bytes(4) + trailing, ROCE_PORT, checksum=0, length=length, **ip)
    sealed = icrc(whole[: 28 + len(packet)])
    sealed = (int.from_bytes(sealed, "little") ^ break_icrc).to_bytes(4, "little")
    whole = udp(packet + sealed + trailing, ROCE_PORT, checksum=checksum, length=length, **ip)
    return ethernet(whole + bytes(beyond), to=to_mac)


def extended_of(opcode, chance):
    """Random extended headers for an opcode: their bytes and field values."""
    data, fields = b"", {}
    for part in OPCODES.get(opcode, ((), True))[0]:
        piece = bytearray(chance.randbytes(BYTES[part]))
        if part == AETH:
            piece[0] = chance.choice((0x1F, 0x00, 0x20, 0x2C, 0x3F, 0x60, 0x61, 0x64))
        data += bytes(piece)
        number = lambda begin, end: int.from_bytes(piece[begin:end], "big")  # noqa: B023, E731
        if part == RETH:
            fields |= {"address": number(0, 8), "rkey": number(8, 12), "length": number(12, 16)}
        if part == ATOMIC:
            fields |= {"address": number(0, 8), "rkey": number(8, 12), "swap_or_add": number(12, 20), "compare": number(20, 28)}
        if part == AETH:
            fields |= {"syndrome": number(0, 1), "msn": number(1, 4)}
        if part == ORIGINAL:
            fields |= {"swap_or_add": number(0, 8)}
        if part == IMMEDIATE:
            fields |= {"immediate": number(0, 4)}
    return data, fields


def number(data, begin, end):
    return int.from_bytes(data[begin:end], "big")


class Malformed(Exception):
    """A frame that is malformed below RoCE."""


class Unsupported(Exception):
    """A well-formed frame that the card does not serve, so it goes to the host."""


def require(condition):
    if not condition:
        raise Malformed


def parse_ipv4(packet):
    """(protocol, source, destination, payload), or raises, with the order of checks of crates/wire/src/ipv4.rs."""
    require(len(packet) >= 20 and packet[0] >> 4 == 4)
    header = (packet[0] & 15) * 4
    require(header >= 20 and len(packet) >= header and total(packet[:header]) == 0xFFFF)
    length = number(packet, 2, 4)
    require(header <= length <= len(packet))
    flags = number(packet, 6, 8)
    require(not flags & 0x8000)
    if header > 20 or flags & 0x3FFF:
        raise Unsupported
    return packet[9], packet[12:16], packet[16:20], packet[20:length]


def parse_roce(frame, packet, datagram):
    """The counter, and the header if valid, for a datagram to RoCE's port."""
    length = number(datagram, 4, 6)
    payload = datagram[8:length]
    # If the datagram is shorter than its IP packet, the ICRC cannot match, because it covers IPv4's length.
    if len(payload) < 16 or number(packet, 2, 4) != 20 + length or icrc(packet[: 20 + length - 4]) != payload[-4:]:
        return "icrc_errors", None
    if length % 4:
        return "icrc_errors", None  # software counts roce_malformed instead: see icrc.sv
    payload = payload[:-4]
    opcode, flags = payload[0], payload[1]
    if opcode not in OPCODES or flags & 15:
        return "roce_malformed", None
    parts, may_have_payload = OPCODES[opcode]
    header = {
        "opcode": opcode,
        "solicited": flags >> 7,
        "acknowledge_request": payload[8] >> 7,
        "marked": int(packet[1] & 3 == 3),
        "partition_key": number(payload, 2, 4),
        "destination_qp": number(payload, 5, 8),
        "psn": number(payload, 9, 12),
        "source": number(packet, 12, 16),
    }
    rest = payload[12:]
    for part in parts:
        if len(rest) < BYTES[part]:
            return "roce_malformed", None
        piece, rest = rest[: BYTES[part]], rest[BYTES[part] :]
        if part == RETH:
            header |= {"address": number(piece, 0, 8), "rkey": number(piece, 8, 12), "length": number(piece, 12, 16)}
        if part == ATOMIC:
            header |= {"address": number(piece, 0, 8), "rkey": number(piece, 8, 12)}
            header |= {"swap_or_add": number(piece, 12, 20), "compare": number(piece, 20, 28)}
        if part == AETH:
            kind, value = piece[0] >> 5, piece[0] & 31
            if kind not in (0, 1, 3) or (kind == 3 and value > 4):
                return "roce_malformed", None
            header |= {"syndrome": piece[0], "msn": number(piece, 1, 4)}
        if part == ORIGINAL:
            header["swap_or_add"] = number(piece, 0, 8)
        if part == IMMEDIATE:
            header["immediate"] = number(piece, 0, 4)
    pad = flags >> 4 & 3
    if pad > len(rest) or (len(rest) > pad and not may_have_payload) or len(rest) - pad > 8191:
        return "roce_malformed", None
    header["payload_bytes"] = len(rest) - pad
    header["payload_offset"] = 42 + len(payload) - len(rest)
    return "roce_received", header


def parse(frame, hardware, address):
    other = {"bytes": len(frame), "source_mac": number(frame, 6, 12)}
    ether_type = number(frame, 12, 14)
    packet = frame[14:]
    if ether_type == 0x0806:
        require(len(packet) >= 28)
        if packet[:6] != bytes.fromhex("000108000604") or number(packet, 6, 8) not in (1, 2):
            raise Unsupported
        return "OtherArp", other
    if ether_type != 0x0800:
        raise Unsupported
    protocol, source, destination, payload = parse_ipv4(packet)
    if protocol == 1:
        require(len(payload) >= 8 and total(payload) == 0xFFFF)
        if payload[0] not in (0, 8):
            raise Unsupported
        require(payload[1] == 0)
        if payload[0] == 8 and destination == address:
            return "OtherEcho", other | {"source": number(source, 0, 4)}
    if protocol == 17:
        require(len(payload) >= 8)
        length = number(payload, 4, 6)
        require(8 <= length <= len(payload))
        pseudo = source + destination + struct.pack(">BBH", 0, 17, length)
        require(number(payload, 6, 8) == 0 or total(pseudo + payload[:length]) == 0xFFFF)
        if destination == address:
            if number(payload, 2, 4) == ROCE_PORT:
                return parse_roce(frame, packet, payload)
            ports = {"source_port": number(payload, 0, 2), "destination_port": number(payload, 2, 4)}
            return "OtherDatagram", other | ports | {"source": number(source, 0, 4), "payload_bytes": length - 8}
    raise Unsupported


def judge(frame, error=False, hardware=HARDWARE, address=ADDRESS):
    """The outcome of a frame: the name of its counter or class, and its attributes if it is good."""
    if error:
        return "drop_receive_error", None
    if len(frame) < 14:
        return "frames_malformed", None
    if frame[:6] != hardware and not frame[0] & 1:
        return "frames_for_others", None
    if len(frame) > FRAME_BYTES_MAX:
        return "frames_malformed", None
    try:
        return parse(frame, hardware, address)
    except Malformed:
        return "frames_malformed", None
    except Unsupported:
        return "OtherHost", {"bytes": len(frame), "source_mac": number(frame, 6, 12)}
