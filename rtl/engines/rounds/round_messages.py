"""Messages of rounds in the layouts of crates/engines/rounds/src/message.rs, for the tests in this folder."""

import struct

ROUND, FETCH, VALUE, START, JOIN = range(1, 6)
CALL_START, CALL_STATUS, CALL_PROPOSE, CALL_SUBSCRIBE, CALL_LEAVE = range(16, 21)
ANSWER, DECIDED = 24, 25
OK, DROPPED, BUSY, NOT_RUNNING, FENCED, BAD_REQUEST = range(6)
CONSENSUS = 1


def round_message(number, proposal=b"", area=bytes(48), epoch=1, members=7, ahead=0, following=0, change=False,
                  algorithm=CONSENSUS):
    head = struct.pack(">QHBBHBB", number, epoch, members, ahead << 2 | change, len(proposal), algorithm, following)
    return head + area + proposal


def fetch(instance, wanted):
    return struct.pack(">QB7x", instance, wanted)


def value(instance, proposer, proposal, change=False):
    return struct.pack(">QBBH52x", instance, proposer, change, len(proposal)) + proposal


def change(add=0, remove=0):
    return bytes([add, remove]) + bytes(6)


def answer(status, number=0, phase=0, epoch=0, members=0):
    return struct.pack(">BBHB3xQ", status, phase, epoch, members, number)


def random_caller(chance):
    """Random fields of a caller_t."""
    return dict(kind=chance.randrange(3), mac=chance.getrandbits(48), address=chance.getrandbits(32), port=chance.getrandbits(16))


def number_of(data):
    """The integer value of bytes in lane order."""
    return int.from_bytes(data, "little")
