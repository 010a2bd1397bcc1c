"""AES-GCM in the form that the gateware needs, with round keys and powers of hash keys; and the test vectors of
Wycheproof."""

import json
import pathlib

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

VECTORS = pathlib.Path(__file__).parent / "vectors/aes_gcm.json"


def encrypted(key, block):
    """A block encrypted by the cryptography library."""
    cipher = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    return cipher.update(block) + cipher.finalize()


def doubled(value):
    return value << 1 ^ (0x11B if value & 0x80 else 0)


def substitutions():
    """The S-box, computed from its definition (FIPS 197, 5.1.1)."""

    def product(a, b):
        result = 0
        while b:
            result ^= a if b & 1 else 0
            a, b = doubled(a), b >> 1
        return result

    table = []
    for value in range(256):
        inverse = next((other for other in range(256) if product(value, other) == 1), 0)
        rotations = [(inverse << by | inverse >> (8 - by)) & 0xFF for by in range(5)]
        table.append(rotations[0] ^ rotations[1] ^ rotations[2] ^ rotations[3] ^ rotations[4] ^ 0x63)
    return table


SUBSTITUTIONS = substitutions()


def round_keys(key):
    """All round keys, 16 bytes each (FIPS 197, 5.2)."""
    words = [key[at : at + 4] for at in range(0, len(key), 4)]
    length, constant = len(words), 1
    while len(words) < 4 * (length + 7):
        word = words[-1]
        if len(words) % length == 0:
            word = bytes(SUBSTITUTIONS[byte] for byte in word[1:] + word[:1])
            word = bytes([word[0] ^ constant]) + word[1:]
            constant = doubled(constant)
        elif length > 6 and len(words) % length == 4:
            word = bytes(SUBSTITUTIONS[byte] for byte in word)
        words.append(bytes(a ^ b for a, b in zip(word, words[-length])))
    return [b"".join(words[at : at + 4]) for at in range(0, len(words), 4)]


def times(a, b):
    """A product of the field of GCM, bit by bit (NIST SP 800-38D, 6.3)."""
    x, v, z = int.from_bytes(a, "big"), int.from_bytes(b, "big"), 0
    for bit in range(127, -1, -1):
        z ^= v if x >> bit & 1 else 0
        v = v >> 1 ^ (0xE1 << 120 if v & 1 else 0)
    return z.to_bytes(16, "big")


def powers(key):
    """The first four powers of the hash key."""
    first = encrypted(key, bytes(16))
    result = [first]
    while len(result) < 4:
        result.append(times(result[-1], first))
    return result


def ghash(key, blocks):
    """GHASH of the blocks, computed block by block."""
    hash_key, result = encrypted(key, bytes(16)), bytes(16)
    for block in blocks:
        result = times(bytes(a ^ b for a, b in zip(result, block)), hash_key)
    return result


def padded(data):
    """The data in blocks, the last one padded with zeros."""
    data += bytes(-len(data) % 16)
    return [data[at : at + 16] for at in range(0, len(data), 16)]


def hashed(associated, text):
    """The blocks over which GCM computes its hash."""
    lengths = (8 * len(associated)).to_bytes(8, "big") + (8 * len(text)).to_bytes(8, "big")
    return padded(associated) + padded(text) + [lengths]


def vectors(key_bits):
    """Wycheproof's vectors for this key size, 96-bit nonces and 128-bit tags: dictionaries of bytes, and `valid`."""
    for vector in json.loads(VECTORS.read_text())["vectors"]:
        entry = {name: bytes.fromhex(value) for name, value in vector.items() if name != "valid"}
        if 8 * len(entry["key"]) == key_bits:
            yield entry | {"valid": vector["valid"]}


def number(block):
    """A block as the integer value of the gateware's ports."""
    return int.from_bytes(block, "little")
