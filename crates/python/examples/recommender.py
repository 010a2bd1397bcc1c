"""Trains a small recommender from a region: another process writes raw rows, and features arrive in memory.

    python recommender.py                                  # memory of the host; PyTorch on the CPU, if it is installed
    python recommender.py --memory device --device cuda    # memory of a GPU, where there is one
    python recommender.py --json figures.json              # the figures go to a file, too

The rows have the form of Criteo's data sets: a label, 13 dense and 26 sparse columns of int32, some values missing.
A separate process writes them into a ring of batches over UDP sockets, and the card at this end computes features from
them as they arrive. The same rows are preprocessed with pandas and numpy, and the same model is trained from those:
the features must be equal bit for bit, and so must the training losses.

Without PyTorch the features are compared, and nothing is trained.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import weft

COLUMNS, DENSE, SPARSE = 40, slice(1, 14), slice(14, 40)
MISSING = np.iinfo(np.int32).min
BUCKETS = 20_000
PIPELINE = f"""
row = {{ int32 = {COLUMNS} }}
columns."1..=13" = ["fill 0", "neg2zero", "log 1"]
columns."14..=39" = ["fill 0", "sigrid_hash salt=0 max={BUCKETS}"]
"""
SLOTS = 8
SENDER, TRAINER = "127.77.0.1", "127.77.0.2"


def raw_rows(rows: int, seed: int) -> np.ndarray:
    """Rows with skewed values, some of them missing or negative, and labels that depend on them."""
    chance = np.random.default_rng(seed)
    table = np.empty((rows, COLUMNS), np.int32)
    table[:, DENSE] = np.minimum(chance.pareto(0.8, (rows, 13)) * 10, 1e9) - 2
    table[:, SPARSE] = np.minimum(chance.zipf(1.3, (rows, 26)), 2**31 - 1) * 2_654_435_761 % 2**32 - 2**31
    likely = 1 / (1 + np.exp(2 - np.log1p(np.maximum(table[:, 1], 0)) + table[:, 14] % 3))
    table[chance.random((rows, COLUMNS)) < 0.05] = MISSING
    table[:, 0] = chance.random(rows) < likely
    return table


def send(path: str, batch: int, repeat: int, port: int) -> None:
    """The sending process: writes the rows of a file, batch by batch, into the ring of the trainer."""
    rows = np.fromfile(path, np.uint8)
    batch_bytes = batch * COLUMNS * 4
    batches = len(rows) // batch_bytes
    with weft.Region(SENDER, len(rows)) as region:
        np.frombuffer(region, np.uint8)[:] = rows
        region.connect(TRAINER, port)
        for number in range(batches * repeat):
            if number >= SLOTS:
                region.wait()
            start = number % batches * batch_bytes
            region.write(start, batch_bytes, number % SLOTS * batch_bytes, number % SLOTS)
        for _ in range(min(SLOTS, batches * repeat)):
            region.wait()
        region.flush()


class FromRegion:
    """Batches of features, read from the region."""

    def __init__(self, arguments: argparse.Namespace, path: str) -> None:
        self.arguments = arguments
        batch_bytes = arguments.batch * COLUMNS * 4
        self.region = weft.Region(TRAINER, SLOTS * batch_bytes, arguments.memory, arguments.gpu, PIPELINE)
        words = [sys.executable, __file__, "--send", path, "--batch", str(arguments.batch)]
        words += ["--repeat", str(arguments.repeat), "--port", str(arguments.port)]
        self.sender = subprocess.Popen(words)
        self.region.accept(arguments.port)

    def slots(self) -> Any:
        """The whole region without a copy: a numpy array, or a PyTorch tensor on the GPU."""
        shape = (SLOTS, self.arguments.batch, COLUMNS)
        if self.arguments.memory == "host":
            return np.frombuffer(self.region, np.int32).reshape(shape)
        import torch

        return torch.as_tensor(self.region, device="cuda").view(torch.int32).view(shape)

    def batches(self) -> Iterator[Any]:
        slots = self.slots()
        for _ in range(self.arguments.rows // self.arguments.batch * self.arguments.repeat):
            number = self.region.wait()
            yield slots[number]
            self.region.tell(number)

    def close(self) -> None:
        if self.sender.wait(30) != 0:
            raise SystemExit("the sender has failed")
        self.region.close()


def sigrid_hash(values: np.ndarray, maximum: int) -> np.ndarray:
    """The hash of the operator `sigrid_hash` in numpy, with a salt of 0."""
    with np.errstate(over="ignore"):
        key = values.astype(np.int64).view(np.uint64)
        key = ~key + (key << np.uint64(21))
        key ^= key >> np.uint64(24)
        key = key + (key << np.uint64(3)) + (key << np.uint64(8))
        key ^= key >> np.uint64(14)
        key = key + (key << np.uint64(2)) + (key << np.uint64(4))
        key ^= key >> np.uint64(28)
        key = key + (key << np.uint64(31))
        factor = np.uint64(0x9DDFEA08EB382D69)
        a = key * factor
        a ^= a >> np.uint64(47)
        b = a * factor
        b ^= b >> np.uint64(47)
        return ((b * factor).view(np.int64) % maximum).astype(np.int32)


def with_pandas(rows: np.ndarray) -> np.ndarray:
    """The same features, computed by pandas and numpy."""
    frame = pd.DataFrame(rows)
    features = np.empty(frame.shape, np.int32)
    features[:, 0] = frame[0]
    frame = frame.mask(frame == MISSING, 0)
    dense = np.log(frame.iloc[:, DENSE].clip(lower=0).to_numpy(np.float64) + 1).astype(np.float32)
    features[:, DENSE] = dense.view(np.int32)
    features[:, SPARSE] = sigrid_hash(frame.iloc[:, SPARSE].to_numpy(), BUCKETS)
    return features


class FromPandas:
    """Batches of features, computed in this process from the rows of a file."""

    def __init__(self, arguments: argparse.Namespace, path: str) -> None:
        self.arguments = arguments
        self.path = path

    def batches(self) -> Iterator[Any]:
        rows = np.fromfile(self.path, np.int32).reshape(-1, self.arguments.batch, COLUMNS)
        for number in range(len(rows) * self.arguments.repeat):
            yield with_pandas(rows[number % len(rows)])

    def close(self) -> None:
        pass


def model(torch: Any, seed: int, device: str) -> Any:
    """A small DLRM: dense features through layers, sparse ones through tables, and products of all pairs of them."""
    torch.manual_seed(seed)
    width = 16

    class Dlrm(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            linear, relu, layers = torch.nn.Linear, torch.nn.ReLU, torch.nn.Sequential
            self.bottom = layers(linear(13, 64), relu(), linear(64, width), relu())
            # One table for all columns; each column has its own range of rows in it.
            self.table = torch.nn.Embedding(26 * BUCKETS, width)
            self.register_buffer("first", torch.arange(26) * BUCKETS)
            self.register_buffer("pairs", torch.tril_indices(27, 27, -1))
            self.top = layers(linear(width + 27 * 26 // 2, 64), relu(), linear(64, 1))

        def forward(self, dense: Any, sparse: Any) -> Any:
            below = self.bottom(dense)
            every = torch.cat([below[:, None], self.table(sparse + self.first)], 1)
            products = torch.bmm(every, every.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
            return self.top(torch.cat([below, products], 1))[:, 0]

    return Dlrm().to(device)


def train(torch: Any, source: Any, arguments: argparse.Namespace) -> tuple[list[float], float, float]:
    """Training losses of all batches, seconds in total, and seconds in which training waited for features."""
    dlrm = model(torch, arguments.seed, arguments.device)
    optimizer = torch.optim.SGD(dlrm.parameters(), lr=0.05)
    judge = torch.nn.BCEWithLogitsLoss()
    losses: list[float] = []
    waited = 0.0
    begin = before = time.perf_counter()
    for batch in source.batches():
        table = (batch if torch.is_tensor(batch) else torch.from_numpy(batch)).to(arguments.device)
        waited += time.perf_counter() - before
        loss = judge(dlrm(table[:, DENSE].view(torch.float32), table[:, SPARSE].long()), table[:, 0].float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        # This waits for the GPU; then the slot of the ring is free.
        losses.append(loss.item())
        before = time.perf_counter()
    return losses, before - begin, waited


def load(source: Any) -> tuple[float, list[np.ndarray]]:
    """Seconds until all features had arrived, and the features of the first batches."""
    kept: list[np.ndarray] = []
    begin = time.perf_counter()
    for batch in source.batches():
        if len(kept) < 4:
            kept.append(np.array(batch.cpu().numpy() if hasattr(batch, "cpu") else batch))
    return time.perf_counter() - begin, kept


def measure(arguments: argparse.Namespace, path: str) -> dict[str, Any]:
    total = arguments.rows // arguments.batch * arguments.batch * arguments.repeat
    found: dict[str, Any] = {"rows": total, "batch": arguments.batch, "memory": arguments.memory}
    sources = (("region", FromRegion), ("pandas", FromPandas))
    if arguments.memory != "host":
        import torch

        # Initialise the GPU first, because that is not part of the loading time.
        torch.zeros(1, device="cuda")
    features = []
    for name, make in sources:
        source = make(arguments, path)
        seconds, kept = load(source)
        source.close()
        features.append(kept)
        found |= {f"{name}_load_s": seconds, f"{name}_rows_per_s": total / seconds}
    found["features_equal"] = all(bool((a == b).all()) for a, b in zip(*features, strict=True))
    try:
        import torch
    except ImportError:
        print("PyTorch is not installed: features are compared, training is skipped", file=sys.stderr)
        return found
    torch.use_deterministic_algorithms(True)
    found |= {"torch": torch.__version__, "device": arguments.device}
    # Warm up: the first steps of a process load libraries and choose algorithms.
    train(torch, FromPandas(argparse.Namespace(**{**vars(arguments), "repeat": 1}), path), arguments)
    losses = []
    for name, make in sources:
        source = make(arguments, path)
        lost, seconds, waited = train(torch, source, arguments)
        source.close()
        losses.append(lost)
        found |= {f"{name}_train_s": seconds, f"{name}_waited_s": waited}
    found["losses_equal"] = losses[0] == losses[1]
    found["first_loss"], found["last_loss"] = losses[0][0], losses[0][-1]
    found["largest_difference"] = max(abs(a - b) for a, b in zip(*losses, strict=True))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=131_072, help="number of rows")
    parser.add_argument("--batch", type=int, default=4_096, help="rows in a batch")
    parser.add_argument("--repeat", type=int, default=1, help="times that all rows are sent")
    parser.add_argument("--memory", choices=("host", "mapped", "device"), default="host", help="memory of the region")
    parser.add_argument("--gpu", type=int, default=0, help="number of the GPU")
    parser.add_argument("--device", default="cpu", help="where PyTorch trains: cpu or cuda")
    parser.add_argument("--port", type=int, default=18_515, help="TCP port where the processes meet")
    parser.add_argument("--seed", type=int, default=7, help="of rows and model")
    parser.add_argument("--json", help="a file for the figures")
    parser.add_argument("--send", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not 0 < arguments.batch <= arguments.rows or arguments.repeat < 1:
        parser.error("there must be a batch of rows")
    if arguments.send:
        return send(arguments.send, arguments.batch, arguments.repeat, arguments.port)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "rows")
        raw_rows(arguments.rows // arguments.batch * arguments.batch, arguments.seed).tofile(path)
        found = measure(arguments, path)
    text = json.dumps(found, indent=2)
    if arguments.json:
        with open(arguments.json, "w") as file:
            file.write(text + "\n")
    print(text)
    if not (found["features_equal"] and found.get("losses_equal", True)):
        raise SystemExit("what the region gives is not what pandas gives")
    return None


if __name__ == "__main__":
    main()
