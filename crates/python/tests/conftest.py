"""A cluster of three real nodes, as a user starts it."""

import os
import pathlib
import subprocess
import time
from collections.abc import Iterator

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
WEFT = os.environ.get("WEFT", str(ROOT / "target/release/weft"))


def wait_until_full(log: pathlib.Path, node: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while "as full" not in log.read_text():
        assert node.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)


@pytest.fixture(scope="session")
def config(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("cluster")
    subprocess.run([WEFT, "init", "--nodes", "3", "--dir", folder], check=True, capture_output=True)
    config = str(folder / "weft.toml")
    nodes = []
    try:
        for number in range(3):
            log = folder / f"node{number}.log"
            command = [WEFT, "start", "--config", config, "--node", str(number)]
            nodes.append((log, subprocess.Popen(command, cwd=folder, stdout=log.open("w"), stderr=subprocess.STDOUT)))
        for log, node in nodes:
            wait_until_full(log, node)
        yield config
    finally:
        for _, node in nodes:
            node.kill()
            node.wait()
