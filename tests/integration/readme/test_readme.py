"""The examples of the README do what it says, in its order, on a fresh server."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sharebroker_server.testkit.brokers import Cluster, one_process
from tests.architecture.sources import ROOT
from tests.support.kafka_jars import CLIENTS, is_there

_EXAMPLE = re.compile(r"^```(sh|python|java|go) run\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_DOCUMENTED_SERVER = "127.0.0.1:9090"
_DOCUMENTED_KAFKA = "127.0.0.1:9092"
_JARS = CLIENTS["4.3.1"]
_GO_MODULE = Path(__file__).parent / "go"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with one_process() as cluster:
        yield cluster


@pytest.fixture
def environment(cluster: Cluster, tmp_path: Path) -> dict[str, str]:
    """The examples' commands: the installed `sharebroker`, and `grpcurl` or what stands in for it."""
    stand_in = tmp_path / "grpcurl"
    stand_in.write_text(f'#!/bin/sh\nexec {sys.executable} {Path(__file__).with_name("grpcurl.py")} "$@"\n')
    stand_in.chmod(0o755)
    path = [str(Path(sys.executable).parent), *os.environ["PATH"].split(os.pathsep), str(tmp_path)]
    return {**os.environ, "PATH": os.pathsep.join(path), "SHAREBROKER_SERVER": cluster.address}


def examples(cluster: Cluster, *languages: str) -> list[tuple[str, str]]:
    """The README's examples in some languages, about this server."""
    text = (ROOT / "README.md").read_text()
    text = text.replace(_DOCUMENTED_SERVER, cluster.address).replace(_DOCUMENTED_KAFKA, cluster.kafka)
    return [(language, example) for language, example in _EXAMPLE.findall(text) if language in languages]


def run(command: list[str], environment: dict[str, str], folder: Path | None = None) -> str:
    """What a command that is to succeed says."""
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def prepare_payments(cluster: Cluster, environment: dict[str, str]) -> None:
    """What stands before the examples of Kafka's clients."""
    (preparation,) = (text for _, text in examples(cluster, "sh") if "payments" in text)
    run(["bash", "-euo", "pipefail", "-c", preparation], environment)


@pytest.mark.timeout(180)
def test_examples_of_the_readme(cluster: Cluster, environment: dict[str, str]) -> None:
    commands = {"sh": ["bash", "-euo", "pipefail", "-c"], "python": [sys.executable, "-c"]}
    told = [
        run([*commands[language], example], environment)
        for language, example in examples(cluster, "sh", "python")
    ]
    shop, work, verified, _, python, grpcurl, acknowledged, _, kafka = told
    assert "Accepted 2." in shop
    assert '{"ID": 2, "CUSTOMER": "BOB"}' in work
    assert verified.count("passed") >= 1
    assert "FINDING" not in verified
    assert python.count("accepted, durable") == python.count("b'{") >= 1
    assert '"text": "world"' in grpcurl
    assert '"lockToken": "4294967297"' in grpcurl
    assert "errorCode" not in acknowledged
    assert "0 b'{\"amount\": 1}'" in kafka


@pytest.mark.skipif(
    shutil.which("java") is None or not is_there(_JARS),
    reason="Kafka's jars or Java 17 are missing: make kafka",
)
def test_java_example(cluster: Cluster, environment: dict[str, str], tmp_path: Path) -> None:
    prepare_payments(cluster, environment)
    ((_, example),) = examples(cluster, "java")
    (tmp_path / "Ledger.java").write_text(example)
    told = run(["java", "-cp", _JARS.class_path, str(tmp_path / "Ledger.java")], environment)
    assert re.search(r'^[01] 0 \{"amount": 2\}$', told, re.MULTILINE)


@pytest.mark.skipif(shutil.which("go") is None, reason="Go is missing: https://go.dev/dl")
def test_go_example(cluster: Cluster, environment: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "ledger"
    shutil.copytree(_GO_MODULE, folder)
    ((_, example),) = examples(cluster, "go")
    (folder / "main.go").write_text(example)
    environment["GOPROXY"] = "off"
    build = ["go", "build", "-o", "ledger", "."]
    built = subprocess.run(build, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if "GOPROXY=off" in built.stderr:
        pytest.skip(f"franz-go is missing: cd {_GO_MODULE.relative_to(ROOT)} && go mod download")
    assert built.returncode == 0, built.stderr
    prepare_payments(cluster, environment)
    assert re.search(r'^[01] 0 \{"amount": 3\}$', run(["./ledger"], environment, folder), re.MULTILINE)
