"""The audit log of a broker: who changed what over which listener, failed authentications, and no secrets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from sharebroker import Admin
from tests.support.client import unique
from tests.testkit.brokers import one_process
from tests.testkit.secured import PASSWORD, Secured, secured

pytestmark = pytest.mark.servers
SECONDS = 30.0
WRONG = "a wrong secret"


@pytest.fixture(scope="module")
def audit_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audit") / "audit.log"


@pytest.fixture(scope="module")
def place(audit_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured(one_process, tmp_path_factory.mktemp("sasl"), f"--audit-file={audit_file}") as made:
        yield made


def connects(admin: AdminClient) -> bool:
    try:
        admin.list_topics(timeout=3.0)
    except KafkaException:
        return False
    return True


def lines(audit_file: Path, **fields: str) -> list[dict[str, Any]]:
    """Returns the lines that have these values."""
    read = [orjson.loads(line) for line in audit_file.read_bytes().splitlines()]
    return [line for line in read if fields.items() <= line.items()]


def test_changes_over_both_listeners_name_their_principal(place: Secured, audit_file: Path) -> None:
    topic = unique("topic")
    client = AdminClient(place.librdkafka("PLAIN"))
    client.create_topics([NewTopic(topic, 2, 1)])[topic].result(SECONDS)
    with Admin(place.address()) as admin:
        admin.delete_topic(topic)
    found = lines(audit_file, resource=topic, resource_type="TOPIC", outcome="success")
    assert [
        (line["principal"], line["host"], line["listener"], line["operation"], line["event"])
        for line in found
    ] == [
        ("User:admin", "127.0.0.1", "kafka", "CreateTopics", "administrative change"),
        ("User:admin", "127.0.0.1", "grpc", "DeleteTopics", "administrative change"),
    ]
    assert (found[0]["api"], found[0]["partitions"]) == ("CreateTopics", 2)


def test_failed_authentications_name_the_claimed_user_but_no_password(
    place: Secured, audit_file: Path
) -> None:
    assert not connects(AdminClient(place.librdkafka("SCRAM-SHA-256", "mallory", WRONG)))
    found = lines(audit_file, event="authentication failed", user="mallory")
    assert {(line["listener"], line["mechanism"], line["principal"]) for line in found} == {
        ("kafka", "SCRAM-SHA-256", "User:ANONYMOUS")
    }
    written = audit_file.read_text() + place.logs
    assert PASSWORD not in written
    assert WRONG not in written
    assert "sharebroker.audit" not in place.logs, "the lines are in the file only"
