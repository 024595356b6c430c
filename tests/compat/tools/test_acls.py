"""kafka-acls, against a Sharebroker with access control whose super users are anonymous."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sharebroker_server.config.broker import STANDARD_AUTHORIZER
from tests.compat.tools.conftest import Tools
from tests.testkit.brokers import one_process


@pytest.fixture(scope="module")
def secured() -> Iterator[Tools]:
    options = (f"--set=authorizer.class.name={STANDARD_AUTHORIZER}", "--set=super.users=User:ANONYMOUS")
    with one_process(*options) as cluster:
        yield Tools(cluster.kafka)


def entries(output: list[str]) -> list[str]:
    """Returns the ACLs of a list, without the resources."""
    return sorted(line.strip() for line in output if line.strip().startswith("(principal="))


def entry(user: str, operation: str, permission: str = "ALLOW", host: str = "*") -> str:
    return f"(principal=User:{user}, host={host}, operation={operation}, permissionType={permission})"


def test_acls_are_added_listed_and_removed(secured: Tools) -> None:
    topic = ("--topic", "orders")
    secured("kafka-acls", "--add", "--allow-principal", "User:alice", "--operation", "Read", *topic)
    secured(
        "kafka-acls", "--add", "--deny-principal", "User:eve", "--deny-host", "10.0.0.7",
        "--operation", "All", "--topic", "ord", "--resource-pattern-type", "prefixed",
    )  # fmt: skip
    listed = secured("kafka-acls", "--list", *topic, "--resource-pattern-type", "match").lines
    assert entries(listed) == [
        entry("alice", "READ"),
        entry("eve", "ALL", "DENY", "10.0.0.7"),
    ]
    assert entries(secured("kafka-acls", "--list", *topic).lines) == [entry("alice", "READ")]
    secured("kafka-acls", "--remove", "--force", *topic, "--resource-pattern-type", "match")
    assert entries(secured("kafka-acls", "--list").lines) == []


def test_acls_of_producers_and_consumers_are_added(secured: Tools) -> None:
    secured(
        "kafka-acls", "--add", "--allow-principal", "User:bob", "--producer", "--topic", "flights",
        "--transactional-id", "t",
    )  # fmt: skip
    consumer = ("--consumer", "--topic", "flights", "--group", "workers")
    secured("kafka-acls", "--add", "--allow-principal", "User:carol", *consumer)
    listed = entries(secured("kafka-acls", "--list", "--topic", "flights").lines)
    expected = [entry("bob", one) for one in ("CREATE", "DESCRIBE", "WRITE")]
    assert listed == [*expected, entry("carol", "DESCRIBE"), entry("carol", "READ")]
    assert entries(secured("kafka-acls", "--list", "--group", "workers").lines) == [entry("carol", "READ")]
    found = secured("kafka-acls", "--list", "--transactional-id", "t").lines
    assert entries(found) == [entry("bob", "DESCRIBE"), entry("bob", "WRITE")]


def test_a_cluster_without_access_control_has_no_acls(tools: Tools) -> None:
    ran = tools.attempt("kafka-acls", "--list")
    assert "SecurityDisabledException: No Authorizer is configured on the broker" in ran.out + ran.err
