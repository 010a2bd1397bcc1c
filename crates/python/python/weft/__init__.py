"""The client of a Weft cluster.

Every call sends a request and returns a :class:`Pending`. Wait for the answer in a thread, or await it::

    import weft

    client = weft.Client("weft.toml")
    kv = client.kv()
    kv.put(b"greeting", b"hello").wait()             # blocks this thread
    version = await kv.put(b"greeting", b"hello")    # in a coroutine
    writes = [kv.put(key, b"x") for key in keys]     # outstanding at the same time
    versions = weft.wait_all(writes)

**Guarantees.** An update takes effect at most once, however often its datagrams are lost or repeated. After an
:class:`UnknownError` it may have taken effect; after a :class:`NotBegunError` it has not.
"""

from ._client import Client, KeyValue, Log, Object, Pending, Rounds, Transactions, wait_all
from ._weft import (
    ClosedError,
    CompareAndSet,
    Decision,
    Ended,
    Entry,
    ForgottenError,
    LogStatus,
    NotBegunError,
    Proposal,
    RefusedError,
    Region,
    Tail,
    UnknownError,
    Versioned,
    WeftError,
)

__all__ = [
    "Client",
    "ClosedError",
    "CompareAndSet",
    "Decision",
    "Ended",
    "Entry",
    "ForgottenError",
    "KeyValue",
    "Log",
    "LogStatus",
    "NotBegunError",
    "Object",
    "Pending",
    "Proposal",
    "RefusedError",
    "Region",
    "Rounds",
    "Tail",
    "Transactions",
    "UnknownError",
    "Versioned",
    "WeftError",
    "wait_all",
]
