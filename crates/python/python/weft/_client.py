"""The engines of a cluster, with types and documentation. The Rust half is :mod:`weft._weft`."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Generator, Iterable
from typing import Any, Generic, Literal, TypeVar

from . import _weft
from ._weft import CompareAndSet, Decision, Ended, Entry, LogStatus, Proposal, Tail, Versioned

T = TypeVar("T")
Mode = Literal["read", "write", "update"]


class _Loop:
    """Completes the futures of one event loop. The loop watches the file descriptor of a bridge. The client's thread
    reports answers to the bridge, and never waits for the interpreter."""

    _loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Loop] = weakref.WeakKeyDictionary()

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.bridge = _weft.Bridge()
        self.waiting: dict[int, asyncio.Future[None]] = {}
        self.next = 0
        loop.add_reader(self.bridge.fileno(), self.complete)

    @classmethod
    def of(cls, loop: asyncio.AbstractEventLoop) -> _Loop:
        known = cls._loops.get(loop)
        if known is None:
            known = cls._loops[loop] = cls(loop)
        return known

    def complete(self) -> None:
        for token in self.bridge.fetch():
            future = self.waiting.pop(token, None)
            if future is not None and not future.done():
                future.set_result(None)


class Pending(Generic[T]):
    """The answer to a call, which is made whether or not the program waits for it.

    The answer can be taken once: with :meth:`wait` in a thread, or with ``await`` in a coroutine of asyncio. Dropping
    this object, or cancelling the task that awaits it, does not cancel the call.
    """

    __slots__ = ("_pending",)

    def __init__(self, pending: _weft.Pending) -> None:
        self._pending = pending

    def wait(self) -> T:
        """Block this thread until the answer is there, and return it.

        A call that is queued because its client has too many outstanding waits at most for the client's time-out, and
        its answer may take as long again.

        Raises the exceptions that the call documents, and ``RuntimeError`` if the answer was taken before.
        """
        answer: T = self._pending.wait()
        return answer

    def is_ready(self) -> bool:
        """Whether the answer is there, or was taken."""
        return self._pending.is_ready()

    def __await__(self) -> Generator[Any, None, T]:
        loop = asyncio.get_running_loop()
        bridge = _Loop.of(loop)
        token = bridge.next
        bridge.next += 1
        answer = self._pending.poll(bridge.bridge, token)
        if answer is None:
            future = bridge.waiting[token] = loop.create_future()
            yield from future
            answer = self._pending.poll(bridge.bridge, token)
            assert answer is not None
        value: T = answer[0]
        return value


def wait_all(pending: Iterable[Pending[T]]) -> list[T]:
    """Wait for all answers, and return them in the order of the calls.

    Raises the exception of the first call that failed; the other calls are made all the same.
    """
    return [answer.wait() for answer in list(pending)]


class KeyValue:
    """The key-value store of a cluster.

    Up to 16 requests of a client are outstanding at a time; further ones are queued.
    """

    def __init__(self, kv: _weft.KeyValue) -> None:
        self._kv = kv

    @property
    def key_bytes(self) -> int:
        """Bytes of a key. Shorter keys are padded with zeros; longer ones raise ``ValueError``."""
        return self._kv.key_bytes

    def get(self, key: bytes) -> Pending[Versioned | None]:
        """Read a key: its value and version, or ``None`` if it is absent. The read is linearizable.

        Raises ``ValueError`` (key too long), :class:`weft.NotBegunError`, :class:`weft.UnknownError`.
        """
        return Pending(self._kv.get(key))

    def put(self, key: bytes, value: bytes) -> Pending[int]:
        """Write a key, and return the version of its value, which is higher than those of earlier values.

        Raises ``ValueError`` (key too long, value empty or too long), :class:`weft.NotBegunError`,
        :class:`weft.UnknownError` (the write may have taken effect).
        """
        return Pending(self._kv.put(key, value))

    def delete(self, key: bytes) -> Pending[int | None]:
        """Delete a key: the version of the deletion, or ``None`` if the key was absent. Raises as :meth:`put`."""
        return Pending(self._kv.delete(key))

    def compare_and_set(self, key: bytes, expected: int, value: bytes) -> Pending[CompareAndSet]:
        """Write a key if its version is ``expected``; 0: if the key is absent. Raises as :meth:`put`."""
        return Pending(self._kv.compare_and_set(key, expected, value))


class Transactions:
    """The transactions of a cluster. Up to 8 calls of a client are outstanding at a time; further ones are queued."""

    def __init__(self, transactions: _weft.Transactions) -> None:
        self._transactions = transactions

    def call(
        self, procedure: int, keys: Iterable[tuple[int, int] | tuple[int, int, Mode]], input: bytes = b""
    ) -> Pending[Ended]:
        """Call a registered procedure, by the number under which the nodes have registered it, from 0.

        ``keys`` are in the order that the procedure expects: shard (0 to 15), number in the shard (below 2**56), and
        whether the object is read, written or both ("update", the default). ``input`` has at most 256 bytes.

        Raises ``ValueError`` (invalid keys or input), :class:`weft.NotBegunError`, :class:`weft.UnknownError` (the
        transaction took effect once, or never will).
        """
        wanted: list[tuple[int, int, str]] = [(key[0], key[1], key[2] if len(key) == 3 else "update") for key in keys]
        return Pending(self._transactions.call(procedure, wanted, input))


class Object:
    """A replicated object.

    Outstanding calls take effect in any order: if order matters, wait for each before the next.
    """

    def __init__(self, object: _weft.Object) -> None:
        self._object = object

    @property
    def type_name(self) -> str:
        """The name of its replicated data type, such as "pn-counter"."""
        return self._object.type_name

    def at(self, replica: int) -> Object:
        """The same object, called only at this replica: its calls see the updates that were made there before.

        Raises ``ValueError`` if there is no such replica.
        """
        return Object(self._object.at(replica))

    def update(self, method: str, *arguments: int) -> Pending[bool]:
        """Call a method: ``True`` if it took effect, ``False`` if the object's invariant does not permit it.

        Arguments are signed 64-bit integers; elements of sets are numbered from 0. Raises ``ValueError`` (method or
        arguments), :class:`weft.NotBegunError`, :class:`weft.UnknownError` (the update may have taken effect).
        """
        return Pending(self._object.update(method, *arguments))

    def query(self, query: str, *arguments: int) -> Pending[int]:
        """Query the replica's state, which may be older than that of other replicas; a truth value is 0 or 1.

        Raises as :meth:`update`.
        """
        return Pending(self._object.query(query, *arguments))


class Log:
    """A replicated log."""

    def __init__(self, log: _weft.Log) -> None:
        self._log = log

    def append(self, content: bytes) -> Pending[int]:
        """Append an entry exactly once, and return its index, which never changes.

        Raises ``ValueError`` (too long for a datagram), :class:`weft.NotBegunError`, :class:`weft.UnknownError` (the entry
        may have been appended).
        """
        return Pending(self._log.append(content))

    def read(self, index: int) -> Pending[Entry | None]:
        """Read the entry at an index, from 0: ``None`` if none is decided yet, or a new leader left the index empty.

        Raises :class:`weft.ForgottenError` (the log no longer has the entry), :class:`weft.NotBegunError`,
        :class:`weft.UnknownError`.
        """
        return Pending(self._log.read(index))

    def status(self) -> Pending[LogStatus]:
        """The progress of a replica. Raises :class:`weft.NotBegunError`, :class:`weft.UnknownError`."""
        return Pending(self._log.status())

    def tail(self, start: int = 0) -> Tail:
        """An iterator over all entries from index ``start`` on, as they are decided, each append once."""
        return self._log.tail(start)


class Rounds:
    """The consensus of a cluster."""

    def __init__(self, rounds: _weft.Rounds) -> None:
        self._rounds = rounds

    def propose(self, proposal: bytes) -> Pending[Proposal]:
        """Propose a value of at least one byte, exactly once. The answer says whether it was decided or dropped.

        Raises ``ValueError`` (invalid length), :class:`weft.NotBegunError`, :class:`weft.UnknownError` (the proposal
        may be decided).
        """
        return Pending(self._rounds.propose(proposal))

    def read(self, after: tuple[int, int] | None = None) -> Pending[list[Decision]]:
        """Decided proposals in order, after the one with this instance and proposer, as many as fit into a datagram.

        Raises :class:`weft.NotBegunError`, :class:`weft.UnknownError`.
        """
        return Pending(self._rounds.read(after))


class Client:
    """A client of a cluster: one UDP port and one thread, for any number of engines, threads and coroutines.

    ``config`` is the cluster's weft.toml. A call fails after ``timeout_s`` seconds (0.001 to 20). ``first`` is the node
    to call first if any node will do.

    Raises ``ValueError`` (configuration or arguments) and :class:`weft.WeftError` (no port, or no address of a host).
    """

    def __init__(self, config: str | os.PathLike[str] = "weft.toml", *, timeout_s: float = 5.0, first: int = 0) -> None:
        self._client = _weft.Client(os.fspath(config), timeout_s, first)

    def kv(self) -> KeyValue:
        """The key-value store. Raises ``ValueError`` if the cluster has none."""
        return KeyValue(self._client.kv())

    def transactions(self) -> Transactions:
        """The transactions. Raises ``ValueError`` if the cluster runs none."""
        return Transactions(self._client.transactions())

    def object(self, name: str) -> Object:
        """The object of this name. Raises ``ValueError`` if the cluster has none."""
        return Object(self._client.object(name))

    def log(self, name: str) -> Log:
        """The log of this name. Raises ``ValueError`` if the cluster has none."""
        return Log(self._client.log(name))

    def rounds(self) -> Rounds:
        """The consensus in rounds. Raises ``ValueError`` if the cluster runs none."""
        return Rounds(self._client.rounds())
