"""The replicas of a role after autoscaling is enabled, as the chart reads them from a cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final

import pytest

from tests.deploy.chart import HELM, KUBERNETES, NO_HELM, Manifest, manifests, template

pytestmark = pytest.mark.skipif(HELM is None, reason=NO_HELM)

KINDS: Final = {
    "apps/v1": {"Deployment": "deployments", "StatefulSet": "statefulsets"},
    "autoscaling/v2": {"HorizontalPodAutoscaler": "horizontalpodautoscalers"},
}
SCALING: Final = "--set=roles.gateway.autoscaling.enabled=true"
OUTSIDE: Final = "--set=kafka.external.type=NodePort"
HELD: Final = {"sharebroker/replicas": "held"}


def gateways(kind: str, replicas: int, **metadata: Any) -> Manifest:
    """Returns the gateways as they run."""
    named = {"name": "sharebroker-gateway", **metadata}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": named, "spec": {"replicas": replicas}}


SCALER: Final[Manifest] = {
    "apiVersion": "autoscaling/v2",
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "sharebroker-gateway"},
}


def pages(objects: list[Manifest]) -> Mapping[str, Any]:
    """Returns an API server's discovery documents and these objects, by path."""
    major, minor, _ = KUBERNETES.split(".")
    responses: dict[str, Any] = {
        "/version": {"major": major, "minor": minor, "gitVersion": f"v{KUBERNETES}"},
        "/api": {"kind": "APIVersions", "versions": []},
    }
    groups = []
    for version, kinds in KINDS.items():
        group = {"groupVersion": version, "version": version.partition("/")[2]}
        groups.append({"name": version.partition("/")[0], "versions": [group], "preferredVersion": group})
        resources = [
            {"name": plural, "kind": kind, "namespaced": True, "verbs": ["get"]}
            for kind, plural in kinds.items()
        ]
        responses[f"/apis/{version}"] = {
            "kind": "APIResourceList",
            "groupVersion": version,
            "resources": resources,
        }
    responses["/apis"] = {"kind": "APIGroupList", "groups": groups}
    for one in objects:
        plural = KINDS[one["apiVersion"]][one["kind"]]
        responses[f"/apis/{one['apiVersion']}/namespaces/queues/{plural}/{one['metadata']['name']}"] = one
    return responses


@contextmanager
def cluster(folder: Path, *objects: Manifest) -> Iterator[str]:
    """Provides the option that points helm to an API server with these objects."""
    known = pages(list(objects))
    missing = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = known.get(self.path.partition("?")[0])
            body = json.dumps(missing if found is None else found).encode()
            self.send_response(404 if found is None else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Discards it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        here = {"cluster": {"server": f"http://127.0.0.1:{server.server_port}"}, "name": "here"}
        context = {"context": {"cluster": "here", "user": ""}, "name": "here"}
        config = {"kind": "Config", "clusters": [here], "contexts": [context], "current-context": "here"}
        (folder / "kubeconfig").write_text(json.dumps(config))
        try:
            yield f"--kubeconfig={folder / 'kubeconfig'}"
        finally:
            server.shutdown()


def rendered(*arguments: str) -> Manifest:
    """Returns the gateways as rendered."""
    done = template("--show-only=templates/workloads.yaml", *arguments)
    assert done.returncode == 0, done.stderr
    (found,) = (one for one in manifests(done.stdout) if one["metadata"]["name"] == "sharebroker-gateway")
    return found


@pytest.mark.parametrize(
    ("objects", "replicas"),
    [
        pytest.param([], None, id="new release: count omitted"),
        pytest.param([gateways("Deployment", 3)], 3, id="enabled later: current count"),
        pytest.param(
            [gateways("Deployment", 5, annotations=HELD), SCALER], 5, id="after that upgrade: current count"
        ),
        pytest.param([gateways("Deployment", 5), SCALER], None, id="always enabled: count omitted"),
    ],
)
def test_autoscaler_takes_over_the_replica_count(
    tmp_path: Path, objects: list[Manifest], replicas: int | None
) -> None:
    with cluster(tmp_path, *objects) as kubeconfig:
        found = rendered(SCALING, "--dry-run=server", kubeconfig)
    assert found["spec"].get("replicas") == replicas
    assert found["metadata"].get("annotations") == (HELD if replicas else None)


def test_numbered_gateways_keep_their_replica_count(tmp_path: Path) -> None:
    with cluster(tmp_path, gateways("StatefulSet", 4)) as kubeconfig:
        assert rendered(SCALING, OUTSIDE, "--dry-run=server", kubeconfig)["spec"]["replicas"] == 4


def test_without_autoscaling_values_set_the_replica_count(tmp_path: Path) -> None:
    with cluster(tmp_path, gateways("Deployment", 5, annotations=HELD), SCALER) as kubeconfig:
        found = rendered("--set=roles.gateway.replicas=3", "--dry-run=server", kubeconfig)
    assert found["spec"]["replicas"] == 3
    assert "annotations" not in found["metadata"]
