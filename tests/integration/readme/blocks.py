"""Code blocks of documents, which tests run in order."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.architecture.sources import ROOT
from tests.testkit.brokers import Cluster

EXAMPLE = re.compile(r"^```(sh|python|java|go) run\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_DOCUMENTED_SERVER = "127.0.0.1:9090"
_DOCUMENTED_KAFKA = "127.0.0.1:9092"


def examples(document: str, cluster: Cluster, *languages: str) -> list[tuple[str, str]]:
    """Returns a document's examples in some languages, with the addresses of this server."""
    text = (ROOT / document).read_text()
    text = text.replace(_DOCUMENTED_SERVER, cluster.address).replace(_DOCUMENTED_KAFKA, cluster.kafka)
    return [(language, example) for language, example in EXAMPLE.findall(text) if language in languages]


def outputs(document: str, cluster: Cluster, environment: dict[str, str]) -> list[str]:
    """Runs a document's shell and Python examples in order and returns what each printed."""
    commands = {"sh": ["bash", "-euo", "pipefail", "-c"], "python": [sys.executable, "-c"]}
    return [
        run([*commands[language], example], environment)
        for language, example in examples(document, cluster, "sh", "python")
    ]


def run(command: list[str], environment: dict[str, str], folder: Path | None = None) -> str:
    """Runs a command that must succeed and returns its output."""
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr
