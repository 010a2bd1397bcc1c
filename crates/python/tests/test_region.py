"""Regions between programs, and preprocessing of rows compared with numpy and pandas."""

import pathlib
import runpy
import subprocess
import sys
import threading
from collections.abc import Iterator

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest

import weft

EXAMPLE = pathlib.Path(__file__).resolve().parents[1] / "examples" / "recommender.py"
MISSING = -(2**31)
PORT = 18_617


def connected(pipeline: str | None = None, nbytes: int = 100_000) -> tuple[weft.Region, weft.Region]:
    one = weft.Region("127.78.0.1", nbytes)
    other = weft.Region("127.78.0.2", nbytes, pipeline=pipeline)
    accepting = threading.Thread(target=other.accept, args=(PORT,))
    accepting.start()
    one.connect("127.78.0.2", PORT)
    accepting.join()
    return one, other


@pytest.fixture
def pair() -> Iterator[tuple[weft.Region, weft.Region]]:
    one, other = connected()
    with one, other:
        yield one, other


def test_what_was_written_is_there_when_it_is_told(pair: tuple[weft.Region, weft.Region]) -> None:
    one, other = pair
    raw = np.frombuffer(memoryview(one), np.uint8)
    raw[:] = np.arange(len(raw)) % 251
    assert len(one) == one.nbytes == 100_000
    for round in range(5):
        one.write(round, 90_000, 10_000, value=round)
        assert other.wait() == round
        assert (np.frombuffer(memoryview(other), np.uint8)[10_000:] == raw[round : round + 90_000]).all()
        other.tell(round + 100)
        assert one.wait() == round + 100
    one.flush()


def test_a_region_outlives_its_connection(pair: tuple[weft.Region, weft.Region]) -> None:
    one, other = pair
    memoryview(one)[:5] = b"hello"
    one.write(0, 5, 0, value=1)
    other.wait()
    view = memoryview(other)
    other.close()
    del other
    assert bytes(view[:5]) == b"hello"


def test_a_wait_ends_with_its_region(pair: tuple[weft.Region, weft.Region]) -> None:
    one, _ = pair
    closing = threading.Timer(0.1, one.close)
    closing.start()
    with pytest.raises(ConnectionError, match="closed"):
        one.wait()
    closing.join()


def test_what_cannot_be_is_said(pair: tuple[weft.Region, weft.Region]) -> None:
    one, _ = pair
    with pytest.raises(ValueError, match="no IPv4 address"):
        weft.Region("nowhere", 10)
    with pytest.raises(ValueError, match="1 to 2"):
        weft.Region("127.78.0.3", 0)
    with pytest.raises(ValueError, match="choose host, mapped or device"):
        weft.Region("127.78.0.3", 10, "gpu")
    with pytest.raises(ValueError, match="pipeline: there is no preset"):
        weft.Region("127.78.0.3", 10, pipeline="crito")
    with pytest.raises(ValueError, match="pipeline: columns \"0\": there is no operator"):
        weft.Region("127.78.0.3", 10, pipeline="row = { int32 = 1 }\ncolumns.0 = ['lg 1']")
    with pytest.raises(ValueError, match="do not lie in this region"):
        one.write(99_999, 2, 0)
    with pytest.raises(ValueError, match="0 or more"):
        one.wait(-1)
    with pytest.raises(TimeoutError):
        one.wait(0.01)
    with pytest.raises(ConnectionError, match="already"):
        one.connect("127.78.0.2", PORT)
    with pytest.raises(OSError):
        weft.Region("127.78.0.1", 10)
    with weft.Region("127.78.0.3", 10) as alone, pytest.raises(ConnectionError, match="no peer"):
        alone.wait(0)
    assert not hasattr(one, "__cuda_array_interface__")
    # This write would end beyond the other end's region.
    one.write(0, 10, 99_999)
    with pytest.raises(ConnectionError, match="do not lie"):
        one.flush()


def test_without_a_gpu_its_memory_is_refused() -> None:
    try:
        weft.Region("127.78.0.3", 10, "device").close()
    except RuntimeError as error:
        assert "GPU" in str(error) and "\n" not in str(error)


def features(pipeline: str, rows: np.ndarray) -> np.ndarray:
    """The features that are in the region after another program has written rows."""
    one, other = connected(pipeline, rows.nbytes)
    with one, other:
        np.frombuffer(memoryview(one), np.int32)[:] = rows.ravel()
        one.write(0, rows.nbytes, 0, value=0)
        other.wait()
        found: np.ndarray = np.frombuffer(memoryview(other), np.int32).reshape(rows.shape)
        return found.copy()


def test_operators_are_those_of_numpy_and_pandas() -> None:
    chance = np.random.default_rng(5)
    edges = np.array([MISSING, MISSING + 1, -1, 0, 1, 2, 2**31 - 2, 2**31 - 1], np.int32)
    column = np.concatenate([edges, chance.integers(-(2**31), 2**31, 20_000, np.int32), np.arange(-500, 500, dtype=np.int32)])
    borders = [-1_000_000, -3, 0, 7, 8, 2_000_000]
    operators = ["fill 9", "neg2zero", "modulus 1009", "clamp -70 90", "bucketize " + " ".join(map(str, borders)), "log 3"]
    pipeline = f"row = {{ int32 = {len(operators)} }}\n"
    pipeline += "".join(f"columns.{index} = ['{operator}']\n" for index, operator in enumerate(operators))
    found = features(pipeline, np.repeat(column[:, None], len(operators), 1))
    frame = pd.Series(column)
    assert (found[:, 0] == frame.mask(frame == MISSING, 9)).all()
    assert (found[:, 1] == frame.clip(lower=0)).all()
    assert (found[:, 2] == np.mod(column, 1009)).all()
    assert (found[:, 3] == frame.clip(-70, 90)).all()
    assert (found[:, 4] == np.searchsorted(borders, column, "left")).all()
    sums = np.maximum(column.astype(np.float64) + 3, 1)
    logarithms = found[:, 5].copy().view(np.float32)
    exact = np.log(sums)
    assert (np.abs(logarithms - exact) <= np.spacing(np.maximum(logarithms, np.float32(0.5)))).all()
    # The operator rounds to the nearest number in nearly all cases.
    assert np.count_nonzero(logarithms != exact.astype(np.float32)) <= 2


def test_presets_are_what_pandas_makes_of_rows() -> None:
    example = runpy.run_path(str(EXAMPLE))
    rows = example["raw_rows"](5_000, 3)
    assert (features(example["PIPELINE"], rows) == example["with_pandas"](rows)).all()


def test_the_recommender_of_the_examples_runs() -> None:
    command = [sys.executable, str(EXAMPLE), "--rows", "8192", "--batch", "1024", "--port", "18618"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    assert '"features_equal": true' in run.stdout
