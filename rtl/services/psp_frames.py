"""Frames for the tests of PSP, sealed by the cryptography library."""

import struct

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

PSP, ROCE, DATAGRAM = 1000, 4791, 4793
ADDRESSES = ["10.0.0.1", "10.0.0.2"]


def address(text):
    return bytes(map(int, text.split(".")))


def checksum(header):
    total = sum(struct.unpack("!10H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ipv4(source, destination, payload_bytes, identification=0, tos=0):
    first = struct.pack("!BBHHHBBH", 0x45, tos, 20 + payload_bytes, identification, 0x4000, 64, 17, 0)
    header = first + address(source) + address(destination)
    return header[:10] + struct.pack("!H", checksum(header)) + header[12:]


def frame(chance, payload_bytes, port=ROCE, source=ADDRESSES[0], destination=ADDRESSES[1]):
    """A frame with random content; PSP ignores UDP's fields except the port, and the payload."""
    udp = struct.pack("!HHHH", chance.randrange(0xC000, 0x10000), port, 8 + payload_bytes, 0)
    packet = udp + chance.randbytes(payload_bytes)
    header = ipv4(source, destination, len(packet), chance.randrange(1 << 16), chance.randrange(256))
    return chance.randbytes(12) + b"\x08\x00" + header + packet


def header(key, spi, counter):
    """A PSP header."""
    return bytes([17, 1, 0, len(key) // 32 << 2 | 1]) + struct.pack("!IQ", spi, counter)


def sealed(key, spi, counter, plain, port=PSP):
    """The sealed form of a frame."""
    end = 14 + int.from_bytes(plain[16:18], "big")
    psp = header(key, spi, counter)
    text = AESGCM(key).encrypt(psp[4:], plain[34:end], psp)
    udp = plain[34:36] + struct.pack("!HHH", port, 8 + len(psp) + len(text), 0)
    old = plain[14:34]
    new = old[:2] + struct.pack("!H", len(udp) + len(psp) + len(text) + 20) + old[4:10] + b"\0\0" + old[12:]
    new = new[:10] + struct.pack("!H", checksum(new)) + new[12:]
    return plain[:14] + new + udp + psp + text
