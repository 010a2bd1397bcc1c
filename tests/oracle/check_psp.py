#!/usr/bin/env python3
"""Checks that scapy's PSP and Weft's decrypt each other's frames.

    check_psp.py PSP_FRAMES SOCKET_FRAMES

PSP_FRAMES is the program `psp_frames` of crates/service. scapy, whose cipher is independent of Weft's, decrypts
the frames that `seal` prints; the results must be the plain frames. Then scapy encrypts the same frames, and
`open` must decrypt them. SOCKET_FRAMES is the program `socket_frames` of crates/seal, whose frames, those of sealed
sockets, scapy decrypts as well. Prints the number of frames; a mismatch makes the exit status 1.
"""

import subprocess
import sys

from scapy.contrib.psp import PSP
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

PORT = 1000
TAG = 16


def unpadded(frame):
    """A frame without Ethernet's padding."""
    return frame[: 14 + int.from_bytes(frame[16:18], "big")]


def opened(key, sealed):
    """The plain frame of a sealed one, decrypted by scapy, without padding."""
    ether = Ether(sealed)
    assert ether[UDP].dport == PORT and ether[UDP].len == len(sealed) - 34, "the UDP header around it"
    assert IP(bytes(ether[IP])[:20]).chksum == chksum(ether), "the IPv4 checksum"
    psp = PSP(sealed[42:])
    assert (psp.nexthdr, psp.hdrextlen, psp.cryptoffset, psp.version) == (17, 1, 0, len(key) // 32), "the PSP header"
    psp.decrypt(key)
    ip = ether[IP].copy()
    ip.remove_payload()
    ip.len, ip.chksum = None, None
    return bytes(Ether(sealed[:14]) / ip / Raw(bytes(psp.data)))


def chksum(ether):
    """The IPv4 checksum that scapy computes."""
    ip = ether[IP].copy()
    ip.chksum = None
    return IP(bytes(ip)).chksum


def sealed(key, plain, counter):
    """The plain frame, sealed by scapy."""
    ip = Ether(plain)[IP].copy()
    port = ip[UDP].sport
    ip.remove_payload()
    ip.len, ip.chksum = None, None
    psp = PSP(
        nexthdr=17, hdrextlen=1, cryptoffset=0, version=len(key) // 32, spi=0x105,
        iv=counter.to_bytes(8, "big"), data=unpadded(plain)[34:],
    )  # fmt: skip
    psp.encrypt(key)
    return bytes(Ether(plain[:14]) / ip / UDP(sport=port, dport=PORT, chksum=0) / Raw(bytes(psp)))


def lines_of(*command):
    """The lines that a program prints, as words of bytes."""
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [[bytes.fromhex(word) for word in line.split()] for line in printed.splitlines()]


def check_sockets(lines):
    """Whether scapy finds what was sealed for a socket: a UDP header and a payload."""
    for number, (key, plain, frame) in enumerate(lines):
        psp = PSP(frame)
        psp.decrypt(key)
        inner = UDP(bytes(psp.data))
        if bytes(psp.data) != plain or inner.len != len(plain):
            print(f"socket frame {number}: scapy finds {bytes(psp.data).hex()}, not {plain.hex()}", file=sys.stderr)
            return False
    print(f"scapy opened {len(lines)} frames of sockets")
    return bool(lines)


def main():
    if len(sys.argv) != 3:
        print("usage: check_psp.py PSP_FRAMES SOCKET_FRAMES", file=sys.stderr)
        return 2
    program = sys.argv[1]
    if not check_sockets(lines_of(sys.argv[2])):
        return 1
    lines, again = lines_of(program, "seal"), []
    for number, (key, plain, frame) in enumerate(lines):
        found = opened(key, frame)
        if found != unpadded(plain):
            print(f"frame {number}: scapy finds {found.hex()}, not {plain.hex()}", file=sys.stderr)
            return 1
        # Counters that Weft would not choose: consecutive ones up to the maximum.
        own = sealed(key, plain, (1 << 64) - len(lines) + number)
        again.append(f"{key.hex()} {plain.hex()} {own.hex()}")
    if not lines:
        print("no frame to check", file=sys.stderr)
        return 1
    answer = subprocess.run([program, "open"], input="\n".join(again), capture_output=True, text=True, check=False)
    if answer.returncode:
        print(answer.stderr, file=sys.stderr, end="")
        return 1
    print(f"scapy opened {len(lines)} PSP frames; of scapy's, {answer.stdout.strip()}")
    # scapy must refuse a changed frame, or the check would prove nothing.
    key, _, frame = lines[-1]
    changed = bytearray(frame)
    changed[-TAG - 1] ^= 1
    try:
        opened(key, bytes(changed))
    except Exception as error:  # scapy's exception types differ between its releases
        print(f"a changed byte is found: {type(error).__name__}")
        return 0
    print("scapy accepts a frame that was changed", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
