"""Reference Weft datagrams and their frames, built with zlib and scapy, for the tests in this folder."""

import zlib

from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from streams import ADDRESS, HARDWARE, number
from structs import constant, pack

PORT = 4793
NODES = constant("NodesMax")
# IP address and MAC address of node i.
PEERS = [f"10.0.1.{node}" for node in range(NODES)]
STATIONS = [f"02:00:00:00:01:{node:02x}" for node in range(NODES)]


def pack_peers(addresses):
    """The value of the port peers_i for {node: address}."""
    return sum(
        pack("peer_t", valid=1, address=number(address)) << 33 * node for node, address in addresses.items()
    )


def message(kind, payload=b"", engine=0, reserved=0, length=None, pad=None):
    """The bytes of a message in a datagram."""
    length = len(payload) if length is None else length
    head = bytes([engine, kind]) + length.to_bytes(2, "big") + reserved.to_bytes(4, "big")
    padding = -len(payload) % 8
    return head + payload + (bytes(padding) if pad is None else pad[:padding])


def datagram(messages, count=None, magic=b"WF", version=2, total=None, reserved=0, zeros=0, behind=b""):
    """The UDP payload that contains these encoded messages."""
    body = b"".join(messages) + behind
    total = len(body) + 16 if total is None else total
    count = len(messages) if count is None else count
    covered = magic + bytes([version, count]) + total.to_bytes(2, "big") + reserved.to_bytes(2, "big")
    covered += body + zeros.to_bytes(4, "big")
    return covered + zlib.crc32(covered).to_bytes(4, "big")


def frame(payload, source=PEERS[1], station=STATIONS[1], source_port=PORT, destination=ADDRESS,
          hardware=HARDWARE, port=PORT, checksum=0, ident=0, **fields):
    """The frame of a UDP payload; `fields` are fields of the IPv4 header."""
    ip = IP(**({"src": source, "dst": destination, "flags": "DF", "ttl": 64, "id": ident} | fields))
    udp = UDP(sport=source_port, dport=port, chksum=checksum)
    return bytes(Ether(src=station, dst=hardware) / ip / udp / payload)
