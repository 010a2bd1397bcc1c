"""The package against a cluster of three real nodes."""

import asyncio
import inspect
import pathlib
import struct
import threading
import time

import pytest
import weft


@pytest.fixture(scope="module")
def client(config: str) -> weft.Client:
    return weft.Client(config)


def test_keys_have_values_and_versions(client: weft.Client) -> None:
    kv = client.kv()
    assert kv.key_bytes == 8
    assert kv.get(b"absent").wait() is None
    first = kv.put(b"key", b"one").wait()
    second = kv.put(b"key", b"two").wait()
    assert second > first
    read = kv.get(b"key").wait()
    assert read is not None and (read.value, read.version) == (b"two", second)
    late = kv.compare_and_set(b"key", first, b"three").wait()
    assert (late.done, late.version) == (False, second)
    swapped = kv.compare_and_set(b"key", second, b"three").wait()
    assert swapped.done and swapped.version > second
    assert kv.delete(b"key").wait() is not None
    assert kv.delete(b"key").wait() is None
    assert kv.get(b"key").wait() is None


def test_requests_are_under_way_together(client: weft.Client) -> None:
    kv = client.kv()
    keys = [f"{number:08}".encode() for number in range(500)]
    versions = weft.wait_all(kv.put(key, key * 4) for key in keys)
    assert all(version > 0 for version in versions)
    read = weft.wait_all([kv.get(key) for key in keys])
    assert [value.value for value in read if value] == [key * 4 for key in keys]


def test_coroutines_await_answers(config: str) -> None:
    async def main() -> None:
        client = weft.Client(config)
        kv = client.kv()

        async def write_and_read(number: int) -> None:
            key = f"async{number:03}".encode()
            version = await kv.put(key, key)
            read = await kv.get(key)
            assert read is not None and (read.value, read.version) == (key, version)

        await asyncio.gather(*(write_and_read(number) for number in range(300)))
        with pytest.raises(ValueError, match="at least one byte"):
            await kv.put(b"key", b"")
        # Cancelling a task does not cancel its call, and does not affect other calls.
        task = asyncio.ensure_future(write_and_read(999))
        await asyncio.sleep(0)
        task.cancel()
        await write_and_read(1)

    asyncio.run(main())
    asyncio.run(main())  # Each event loop has its own bridge.


def test_threads_share_a_client(client: weft.Client) -> None:
    kv = client.kv()

    def count(name: int) -> None:
        for _ in range(50):
            kv.put(f"thread{name}".encode(), b"x").wait()

    threads = [threading.Thread(target=count, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(kv.get(f"thread{name}".encode()).wait() for name in range(4))


def test_transactions_commit_or_are_refused(client: weft.Client) -> None:
    # The application in a configuration of `weft init` registers transfer, deposit and balance, in this order.
    transfer, deposit, balance = range(3)
    transactions = client.transactions()
    before = transactions.call(balance, [(0, 1, "read")]).wait()
    ended = transactions.call(deposit, [(0, 1)], struct.pack("<q", 100)).wait()
    assert (ended.outcome, before.outcome) == ("committed", "committed")
    after = transactions.call(balance, [(0, 1, "read")]).wait()
    assert after.answer is not None and before.answer is not None
    assert struct.unpack("<q", after.answer)[0] == struct.unpack("<q", before.answer)[0] + 100
    refused = transactions.call(transfer, [(0, 1), (1, 1)], struct.pack("<q", 10**12)).wait()
    assert (refused.outcome, refused.reason) == ("refused", 2)
    with pytest.raises(ValueError, match="shard"):
        transactions.call(deposit, [(99, 0)])
    with pytest.raises(ValueError, match="mode"):
        transactions.call(deposit, [(0, 0, "append")])  # type: ignore[list-item]


def test_objects_converge(client: weft.Client) -> None:
    likes = client.object("likes")
    assert likes.type_name == "pn-counter"
    before = likes.at(0).query("value").wait()
    assert weft.wait_all([likes.update("increment", 2) for _ in range(20)]) == [True] * 20
    deadline = time.monotonic() + 30
    while [likes.at(replica).query("value").wait() for replica in range(3)] != [before + 40] * 3:
        assert time.monotonic() < deadline
    with pytest.raises(ValueError, match="multiply"):
        likes.update("multiply", 2).wait()
    with pytest.raises(ValueError, match="replica 7"):
        likes.at(7)


def test_logs_have_one_order(client: weft.Client) -> None:
    log = client.log("events")
    first = log.append(b"first").wait()
    second = log.append(b"second").wait()
    assert second > first
    entry = log.read(second).wait()
    assert entry is not None and (entry.index, entry.content) == (second, b"second")
    assert log.read(second + 1000).wait() is None
    tail = log.tail(first)
    contents = [entry.content for entry in iter(lambda: tail.next(0.2), None)]
    assert contents == [b"first", b"second"]
    assert log.status().wait().decided > second
    with pytest.raises(ValueError, match="shorten"):
        log.append(b"x" * 70_000).wait()


def test_what_is_not_there_is_named(client: weft.Client, tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="the log `events`"):
        client.log("nothing")
    with pytest.raises(ValueError, match="rounds"):
        client.rounds()
    with pytest.raises(ValueError, match=r"absent\.toml"):
        weft.Client(tmp_path / "absent.toml")
    with pytest.raises(ValueError, match="timeout_s"):
        weft.Client(tmp_path / "absent.toml", timeout_s=0)


def test_a_call_that_nobody_answers_ends_all_the_same(config: str, tmp_path: pathlib.Path) -> None:
    lonely = tmp_path / "weft.toml"
    lonely.write_text(pathlib.Path(config).read_text().replace("datagram_port = 4793", "datagram_port = 9"))
    kv = weft.Client(lonely, timeout_s=0.3).kv()
    with pytest.raises(weft.UnknownError, match="may have been"):
        kv.put(b"key", b"value").wait()
    # At most 16 calls are outstanding at a time, each for 0.3 s. So most of these reach their time-out while they are
    # still queued in the client, and nothing was sent. Which calls these are depends on when the client's thread runs.
    errors = []
    for answer in [kv.put(b"key", b"value") for _ in range(256)]:
        with pytest.raises(TimeoutError) as raised:
            answer.wait()
        errors.append(raised.type)
    assert set(errors) == {weft.UnknownError, weft.NotBegunError}
    with pytest.raises(TimeoutError):
        weft.wait_all(reversed([kv.put(b"key", b"value") for _ in range(64)]))


def test_an_answer_is_taken_once(client: weft.Client) -> None:
    answer = client.kv().get(b"key")
    answer.wait()
    assert answer.is_ready()
    with pytest.raises(RuntimeError, match="taken already"):
        answer.wait()


def test_every_public_name_is_documented() -> None:
    for name in weft.__all__:
        value = getattr(weft, name)
        assert inspect.getdoc(value), name
        if inspect.isclass(value) and value.__module__ == "weft._client":
            for member, function in inspect.getmembers(value, inspect.isfunction):
                if not member.startswith("_"):
                    assert inspect.getdoc(function), f"{name}.{member}"
                    assert "return" in function.__annotations__, f"{name}.{member}"
