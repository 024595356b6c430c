"""The command `quotas`: sets, lists and removes quotas of an entity."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from tests.integration.client.cli.commands.conftest import Command
from tests.support.client import unique


@pytest.fixture
def user() -> str:
    return unique("user")


def listed(sharebroker: Command, *options: str) -> list[dict[str, Any]]:
    ran = sharebroker("quotas", "list", "--json", *options)
    assert ran.code == 0, ran
    return list(ran.data)


def test_quotas_are_set_listed_and_removed(sharebroker: Command, user: str) -> None:
    ran = sharebroker("quotas", "set", "--user", user, "producer_byte_rate=1000", "request_percentage=12.5")
    assert (ran.code, ran.err) == (0, f"Changed producer_byte_rate, request_percentage of user={user}.\n")
    entity = {"user": user}
    assert listed(sharebroker, "--user", user) == [
        {"entity": entity, "quota": "producer_byte_rate", "value": 1000.0},
        {"entity": entity, "quota": "request_percentage", "value": 12.5},
    ]
    sharebroker("quotas", "remove", "--user", user, "producer_byte_rate")
    assert [row["quota"] for row in listed(sharebroker, "--user", user)] == ["request_percentage"]
    sharebroker("quotas", "remove", "--user", user, "request_percentage")
    assert not listed(sharebroker, "--user", user)


def test_defaults_have_no_name(sharebroker: Command, user: str) -> None:
    entity = ("--user", user, "--client-defaults")
    sharebroker("quotas", "set", *entity, "consumer_byte_rate=5")
    ran = sharebroker("quotas", "list", *entity)
    assert f"user={user}, client-id=<default>  consumer_byte_rate    5.0" in ran.out
    (row,) = listed(sharebroker, *entity)
    assert row["entity"] == {"user": user, "client-id": None}
    sharebroker("quotas", "remove", *entity, "consumer_byte_rate")


@pytest.mark.parametrize(
    "arguments",
    [
        ("set", "producer_byte_rate=1"),
        ("remove", "producer_byte_rate"),
        ("set", "--user", "alice", "--user-defaults", "producer_byte_rate=1"),
        ("set", "--user", "alice", "producer_byte_rate"),
        ("set", "--user", "alice", "producer_byte_rate=many"),
    ],
)
def test_wrong_usage_is_rejected(sharebroker: Command, arguments: tuple[str, ...]) -> None:
    assert sharebroker("quotas", *arguments).code == 2


def test_an_unknown_quota_is_rejected(sharebroker: Command, user: str) -> None:
    failure = sharebroker("quotas", "set", "--user", user, "bytes=1").failure
    assert isinstance(failure, KafkaError)
    assert failure.code is ErrorCode.INVALID_REQUEST
