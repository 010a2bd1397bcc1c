"""Checks that the parser of Prometheus's Python client accepts the metrics of a running node: check_metrics.py
WEFT."""

import pathlib
import subprocess
import sys
import tempfile
import time
import tomllib
import urllib.error
import urllib.request

from prometheus_client.openmetrics.parser import text_string_to_metric_families

PATIENCE_S = 60


def fetch(url):
    with urllib.request.urlopen(url, timeout=5) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


def wait_until_ready(base, node):
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end and node.poll() is None:
        try:
            return fetch(f"{base}/readyz")
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.05)
    sys.exit(f"check_metrics.py: {base}/readyz is not ready")


def check(base):
    kind, text = fetch(f"{base}/metrics")
    assert kind.startswith("application/openmetrics-text"), kind
    families = {family.name: family for family in text_string_to_metric_families(text)}
    samples = sum(len(family.samples) for family in families.values())
    without_help = [family.name for family in families.values() if not family.documentation]
    assert not without_help, without_help
    full = families["weft_full"].samples
    assert [(sample.labels["node"], sample.value) for sample in full] == [("0", 1.0)], full
    engines = {sample.labels["engine"] for sample in families["weft_engine_full"].samples}
    assert engines == {"[kv]", "[transactions]", "[[object]] likes", "[[log]] events", "[lock]"}, engines
    assert families["weft_kv_writes_led"].type == "counter"
    # The parser must reject invalid metrics, or the check would prove nothing.
    for broken in [text.removesuffix("# EOF\n"), text.replace("# TYPE weft_full gauge", "# TYPE weft_full gauge gauge")]:
        try:
            list(text_string_to_metric_families(broken))
        except ValueError:
            continue
        sys.exit("check_metrics.py: the parser takes what is broken")
    print(f"metrics: {len(families)} families, {samples} samples, read by prometheus_client")


def main():
    weft = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / "weft.toml"
        subprocess.run([weft, "init", "--nodes", "1", "--dir", folder], check=True, stdout=subprocess.DEVNULL)
        parsed = tomllib.loads(config.read_text())
        base = f"http://{parsed['node'][0]['address']}:{parsed['cluster']['metrics_port']}"
        node = subprocess.Popen([weft, "start", "--config", config, "--node", "0"], stdout=subprocess.DEVNULL)
        try:
            wait_until_ready(base, node)
            check(base)
        finally:
            node.terminate()
            node.wait()


main()
