"""The Rust half: :mod:`weft` documents what programs use."""

from typing import Any, Self

class WeftError(Exception):
    """A call has no answer that a program can go on with."""

class RefusedError(WeftError):
    """The cluster refuses the call. Nothing has happened."""

class ClosedError(WeftError):
    """The client is closed. A call may have taken effect, once."""

class ForgottenError(WeftError):
    """The log no longer keeps this entry."""

class NotBegunError(TimeoutError):
    """No node took the call within the time-out. Nothing has happened."""

class UnknownError(TimeoutError):
    """No answer within the time-out. An update has taken effect once or never, or may still do so."""

class Pending:
    def wait(self) -> Any: ...
    def is_ready(self) -> bool: ...
    def poll(self, bridge: Bridge, token: int) -> tuple[Any] | None: ...

class Bridge:
    def __init__(self) -> None: ...
    def fileno(self) -> int: ...
    def fetch(self) -> list[int]: ...

class Versioned:
    """A value of the key-value store and its version."""

    @property
    def value(self) -> bytes: ...
    @property
    def version(self) -> int: ...

class CompareAndSet:
    """The result of a compare-and-set: whether it wrote, and the version that the key has now (0: absent)."""

    @property
    def done(self) -> bool: ...
    @property
    def version(self) -> int: ...

class KeyValue:
    @property
    def key_bytes(self) -> int: ...
    def get(self, key: bytes) -> Pending: ...
    def put(self, key: bytes, value: bytes) -> Pending: ...
    def delete(self, key: bytes) -> Pending: ...
    def compare_and_set(self, key: bytes, expected: int, value: bytes) -> Pending: ...

class Ended:
    """How a transaction ended."""

    @property
    def outcome(self) -> str:
        """"committed", or without any effect "refused" (by the procedure), "conflict", "full", "unavailable", "faulty"."""
    @property
    def reason(self) -> int | None:
        """The procedure's reason for refusing."""
    @property
    def answer(self) -> bytes | None:
        """What the procedure answered; ``None`` if it has not, or if the answer was lost with its node."""

class Transactions:
    def call(self, procedure: int, keys: list[tuple[int, int, str]], input: bytes) -> Pending: ...

class Object:
    @property
    def type_name(self) -> str: ...
    def at(self, replica: int) -> Object: ...
    def update(self, method: str, *arguments: int) -> Pending: ...
    def query(self, query: str, *arguments: int) -> Pending: ...

class Entry:
    """An entry of a log: its index, the client that appended it with its number there, and its content."""

    @property
    def index(self) -> int: ...
    @property
    def origin(self) -> int: ...
    @property
    def sequence(self) -> int: ...
    @property
    def content(self) -> bytes: ...

class LogStatus:
    """The progress of a replica of a log, in entries, and its leader; ``halted``: a majority has lost its memory."""

    @property
    def applied(self) -> int: ...
    @property
    def decided(self) -> int: ...
    @property
    def leader(self) -> int | None: ...
    @property
    def halted(self) -> bool: ...

class Tail:
    """The entries of a log, as they come."""

    @property
    def index(self) -> int:
        """The index to be read next."""
    def next(self, timeout_s: float) -> Entry | None:
        """Block until the next entry is there, and return it; ``None`` if none has come after ``timeout_s`` seconds."""

class Log:
    def append(self, content: bytes) -> Pending: ...
    def read(self, index: int) -> Pending: ...
    def status(self) -> Pending: ...
    def tail(self, start: int = 0) -> Tail: ...

class Proposal:
    """The result of a proposal: whether its instance decided it, or dropped it without effect."""

    @property
    def decided(self) -> bool: ...
    @property
    def instance(self) -> int: ...

class Decision:
    """A decided proposal: its instance, the node that proposed it, and what was proposed."""

    @property
    def instance(self) -> int: ...
    @property
    def proposer(self) -> int: ...
    @property
    def proposal(self) -> bytes: ...

class Rounds:
    def propose(self, proposal: bytes) -> Pending: ...
    def read(self, after: tuple[int, int] | None = None) -> Pending: ...

class Client:
    def __init__(self, config: str, timeout_s: float, first: int) -> None: ...
    def kv(self) -> KeyValue: ...
    def transactions(self) -> Transactions: ...
    def object(self, name: str) -> Object: ...
    def log(self, name: str) -> Log: ...
    def rounds(self) -> Rounds: ...

class Region:
    """Memory that one other program writes into over UDP sockets, and from which this one writes into the other's.

    A region is a buffer: ``memoryview(region)`` and ``numpy.frombuffer(region, dtype)`` see it without a copy, as long
    as they like. In memory of a GPU it has ``__cuda_array_interface__`` instead, for PyTorch and CuPy; ``mapped``
    memory has both. A thread of its own drives the connection, and the calls may be made by any thread.
    """

    def __init__(
        self,
        address: str,
        nbytes: int,
        memory: str = "host",
        gpu: int = 0,
        pipeline: str | None = None,
    ) -> None:
        """A region of ``nbytes`` zeros at an IPv4 address of this machine, UDP port 4791.

        ``memory`` is ``host``, ``mapped`` (of the host, for a GPU) or ``device`` (of the GPU with number ``gpu``). What
        the other program writes passes ``pipeline`` on its way: ``criteo``, ``balboa``, or a declaration in TOML. Each
        write is a message that begins with a row.

        Raises ``ValueError`` for an argument that means nothing, ``OSError`` for an address that is not this machine's
        or in use, and ``RuntimeError`` if there is no GPU.
        """

    def accept(self, port: int, timeout_s: float = 30.0) -> None:
        """Wait for the other program at a TCP port of this region's address, and connect with its region.

        Raises ``TimeoutError`` if nobody came, ``OSError`` and ``ConnectionError``.
        """

    def connect(self, address: str, port: int, timeout_s: float = 30.0) -> None:
        """Connect with the region of the other program, which waits at this address and TCP port, or soon will.

        Raises ``OSError`` and ``ConnectionError``.
        """

    def write(
        self, offset: int, nbytes: int, to: int, value: int | None = None, timeout_s: float = 30.0
    ) -> None:
        """Write a part of this region into the other's, and tell ``value`` (32 bits) behind it, if there is one.

        Returns once the write is posted. The bytes must stay as they are until :meth:`flush`, or an answer to the
        value. At most 256 writes are under way; more wait.

        Raises ``ValueError`` for bytes outside of this region, ``TimeoutError``, and ``ConnectionError`` if the other
        program is gone or a write went outside of its region.
        """

    def flush(self, timeout_s: float = 30.0) -> None:
        """Wait until all that was written has arrived. Raises as :meth:`write`."""

    def tell(self, value: int, timeout_s: float = 30.0) -> None:
        """Tell the other program a value of 32 bits. Raises as :meth:`write`."""

    def wait(self, timeout_s: float = 30.0) -> int:
        """The next value that the other program tells. All that it had written before lies in this region.

        Raises ``TimeoutError`` and ``ConnectionError``.
        """

    def close(self) -> None:
        """Stop: nobody writes into this region any more. Its bytes stay."""

    @property
    def nbytes(self) -> int:
        """Bytes of the region."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Where the memory lies for CUDA. Raises ``AttributeError`` for memory of the host."""

    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __len__(self) -> int: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, exception: object, value: object, trace: object) -> None: ...
