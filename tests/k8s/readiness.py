"""Seconds from the start of a pod's program until the pod is ready, as the kubelet reports them."""

from __future__ import annotations

import json
import subprocess
import threading
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from tests.k8s.keys import NAMESPACE
from tests.k8s.parts import BIN
from tests.k8s.release import Release

_LABEL: Final = "app.kubernetes.io/component"


class Readiness:
    """Watches pods; `seconds` by role, of each pod's first time. Times are whole seconds."""

    def __init__(self, release: Release) -> None:
        self.seconds: defaultdict[str, list[float]] = defaultdict(list)
        command = [f"{BIN}/kubectl", f"--kubeconfig={release.node.kubectl.kubeconfig}", "get", "pods"]
        self._process = subprocess.Popen(
            [*command, f"--namespace={NAMESPACE}", "--watch", "-o=json"],
            stdout=subprocess.PIPE,
            text=True,
            stderr=subprocess.DEVNULL,
        )
        self._seen: set[str] = set()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stops watching."""
        self._process.terminate()
        self._process.wait(10)
        self._thread.join(10)

    def _read(self) -> None:
        for pod in self._pods():
            role, uid = pod["metadata"]["labels"].get(_LABEL, ""), pod["metadata"]["uid"]
            took = _took(pod)
            if role and took is not None and uid not in self._seen:
                self._seen.add(uid)
                self.seconds[role].append(took)

    def _pods(self) -> Iterator[dict[str, Any]]:
        """Yields pods; the watch prints one JSON document after another."""
        assert self._process.stdout is not None
        lines: list[str] = []
        for line in self._process.stdout:
            lines.append(line)
            if line.rstrip() == "}":
                yield json.loads("".join(lines))
                lines = []


def _took(pod: dict[str, Any]) -> float | None:
    status = pod["status"]
    for condition in status.get("conditions", ()):
        if condition["type"] == "Ready" and condition["status"] == "True":
            started = status["containerStatuses"][0]["state"]["running"]["startedAt"]
            return (_time(condition["lastTransitionTime"]) - _time(started)).total_seconds()
    return None


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
