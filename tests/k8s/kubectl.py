"""kubectl and helm, bound to one cluster."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Final

from tests.deploy.chart import CHART, HELM
from tests.k8s.keys import NAMESPACE
from tests.k8s.parts import BIN

_TIME: Final = 600.0


class Failed(Exception):
    """A command of kubectl or helm failed; the text is its output."""


class Kubectl:
    """Runs commands against one cluster, by default in our namespace."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self._environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "HELM_NAMESPACE": NAMESPACE}

        self._running: set[subprocess.Popen[str]] = set()

    def abandon(self) -> None:
        """Ends running commands of other threads whose results are no longer needed."""
        for process in list(self._running):
            process.kill()

    def __call__(self, *words: str, given: str = "") -> str:
        """Returns the command's output. Raises Failed."""
        return self._run([f"{BIN}/kubectl", *words], given)

    def answers(self, *words: str) -> bool:
        """Returns whether a command succeeds."""
        try:
            self(*words)
        except Failed:
            return False
        return True

    def get(self, *words: str) -> list[dict[str, Any]]:
        """Returns objects."""
        found: dict[str, Any] = json.loads(self("get", *words, "-o", "json"))
        return list(found["items"]) if "items" in found else [found]

    def helm(self, *words: str) -> str:
        """Runs helm."""
        return self._run([str(HELM), *words])

    def release(self, verb: str, name: str, *words: str) -> str:
        """Installs or upgrades a release of our chart, and waits until it is ready."""
        return self.helm(verb, name, str(CHART), "--wait", "--timeout=5m", *words)

    def _run(self, command: list[str], given: str = "") -> str:
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            command, env=self._environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True
        )
        self._running.add(process)
        try:
            output, errors = process.communicate(given, timeout=_TIME)
        finally:
            process.kill()
            self._running.discard(process)
        if process.returncode:
            raise Failed(f"{' '.join(command[:4])} …: {errors[-2000:] or output[-2000:]}")
        return output
