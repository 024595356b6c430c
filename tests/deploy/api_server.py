"""A Kubernetes API server with fixed objects, for what templates look up."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final

from tests.deploy.chart import KUBERNETES, Manifest

KINDS: Final = {
    "v1": {"Secret": "secrets"},
    "apps/v1": {"Deployment": "deployments", "StatefulSet": "statefulsets"},
    "autoscaling/v2": {"HorizontalPodAutoscaler": "horizontalpodautoscalers"},
}


def _path(version: str) -> str:
    return f"/apis/{version}" if "/" in version else f"/api/{version}"


def pages(objects: list[Manifest]) -> Mapping[str, Any]:
    """Returns an API server's discovery documents and these objects, by path."""
    major, minor, _ = KUBERNETES.split(".")
    responses: dict[str, Any] = {
        "/version": {"major": major, "minor": minor, "gitVersion": f"v{KUBERNETES}"},
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
    }
    groups = []
    for version, kinds in KINDS.items():
        if "/" in version:
            group = {"groupVersion": version, "version": version.partition("/")[2]}
            groups.append({"name": version.partition("/")[0], "versions": [group], "preferredVersion": group})
        resources = [
            {"name": plural, "kind": kind, "namespaced": True, "verbs": ["get"]}
            for kind, plural in kinds.items()
        ]
        responses[_path(version)] = {
            "kind": "APIResourceList",
            "groupVersion": version,
            "resources": resources,
        }
    responses["/apis"] = {"kind": "APIGroupList", "groups": groups}
    for one in objects:
        plural = KINDS[one["apiVersion"]][one["kind"]]
        path = f"{_path(one['apiVersion'])}/namespaces/queues/{plural}/{one['metadata']['name']}"
        responses[path] = one
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
