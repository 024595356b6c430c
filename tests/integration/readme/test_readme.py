"""The code blocks of the documents work: in order, on a fresh server for each document."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT, files, name
from tests.integration.readme.blocks import EXAMPLE, examples, outputs, run
from tests.support.kafka_jars import CLIENTS, is_there
from tests.testkit.brokers import Cluster

_JARS = CLIENTS["4.3.1"]
_GO_MODULE = Path(__file__).parent / "go"
_CLIENTS = "docs/clients.md"


def prepare_payments(cluster: Cluster, environment: dict[str, str]) -> None:
    """Runs the block before the examples of Kafka's clients."""
    (preparation,) = (text for _, text in examples(_CLIENTS, cluster, "sh") if "payments" in text)
    run(["bash", "-euo", "pipefail", "-c", preparation], environment)


@pytest.mark.timeout(180)
def test_readme_examples_work(cluster: Cluster, environment: dict[str, str]) -> None:
    shop, work, _, python, kafka, acquired = outputs("README.md", cluster, environment)
    assert "Accepted 2." in shop
    assert '{"ID": 2, "CUSTOMER": "BOB"}' in work
    assert '"start_offset": 1' in work
    assert work.count("passed") >= 1
    assert "FINDING" not in work
    assert python.count("accepted, durable") == python.count("b'{") >= 1
    assert "b'{" in kafka
    assert "lockToken" in acquired


@pytest.mark.timeout(180)
def test_clients_document_examples_work(cluster: Cluster, environment: dict[str, str]) -> None:
    _, python, _, worker, _, kafka = outputs(_CLIENTS, cluster, environment)
    assert python.count("accepted, durable") == python.count("b'{") >= 1
    assert worker.count("Retry") == 3
    assert worker.count("resized b'17'") == 1
    assert worker.count("Reject") == 2  # the first record of this group is the JSON of the example before
    assert "0 b'{\"amount\": 1}'" in kafka


@pytest.mark.timeout(180)
def test_grpc_document_examples_work(cluster: Cluster, environment: dict[str, str]) -> None:
    acquired, acknowledged = outputs("docs/grpc.md", cluster, environment)
    assert '"text": "world"' in acquired
    assert '"lockToken": "4294967297"' in acquired
    assert "errorCode" not in acknowledged


@pytest.mark.timeout(180)
def test_first_steps_work(cluster: Cluster, environment: dict[str, str]) -> None:
    _, worked, failed, retried = outputs("docs/first-steps.md", cluster, environment)
    assert worked.count("sent to") == 2
    assert "bob is not an address" in " ".join(failed.split())
    assert "bob" in retried


@pytest.mark.timeout(180)
def test_dead_letters_document_examples_work(cluster: Cluster, environment: dict[str, str]) -> None:
    _, worked, redriven = outputs("docs/dead-letters.md", cluster, environment)
    assert "__dlq.errors.disposition" in worked
    assert "rejected" in worked
    assert '{"id": 1, "customer": "ada"}' in redriven


def test_testing_document_example_works(cluster: Cluster, environment: dict[str, str]) -> None:
    (printed,) = outputs("docs/testing.md", cluster, environment)
    assert printed == "b'one'\n"


def test_every_executable_block_is_in_a_tested_document() -> None:
    documents = {
        "README.md",
        _CLIENTS,
        "docs/grpc.md",
        "docs/dead-letters.md",
        "docs/failures.md",
        "docs/first-steps.md",
        "docs/testing.md",
    }
    found = {name(path) for path in files() if path.suffix == ".md" and EXAMPLE.search(path.read_text())}
    assert found == documents


@pytest.mark.skipif(
    shutil.which("java") is None or not is_there(_JARS),
    reason="Kafka's jars or Java 17 are missing: make kafka",
)
def test_java_example_works(cluster: Cluster, environment: dict[str, str], tmp_path: Path) -> None:
    prepare_payments(cluster, environment)
    ((_, example),) = examples(_CLIENTS, cluster, "java")
    (tmp_path / "Ledger.java").write_text(example)
    output = run(["java", "-cp", _JARS.class_path, str(tmp_path / "Ledger.java")], environment)
    assert re.search(r'^[01] 0 \{"amount": 2\}$', output, re.MULTILINE)


@pytest.mark.skipif(shutil.which("go") is None, reason="Go is missing: https://go.dev/dl")
def test_go_example_works(cluster: Cluster, environment: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "ledger"
    shutil.copytree(_GO_MODULE, folder)
    ((_, example),) = examples(_CLIENTS, cluster, "go")
    (folder / "main.go").write_text(example)
    environment["GOPROXY"] = "off"
    build = ["go", "build", "-o", "ledger", "."]
    built = subprocess.run(build, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if "GOPROXY=off" in built.stderr:
        pytest.skip(f"franz-go is missing: cd {_GO_MODULE.relative_to(ROOT)} && go mod download")
    assert built.returncode == 0, built.stderr
    prepare_payments(cluster, environment)
    assert re.search(r'^[01] 0 \{"amount": 3\}$', run(["./ledger"], environment, folder), re.MULTILINE)
