"""DescribeUserScramCredentials: each user has its own result; Kafka's texts."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.catalog.users import ScramCredentialRecord
from sharebroker_server.kafka_wire.messages import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from tests.testkit.sasl import credentials_of
from tests.unit.gateway.kafka.api.harness import Harness


@pytest.fixture
def users(harness: Harness) -> None:
    for name in ("bob", "alice"):
        for mechanism, credential in credentials_of("pencil").items():
            harness.gateway.catalog.catalog.users.apply(ScramCredentialRecord(name, mechanism, credential))


async def described(harness: Harness, *names: str) -> DescribeUserScramCredentialsResponse:
    users = [DescribeUserScramCredentialsRequest.UserName(name=name) for name in names]
    request = DescribeUserScramCredentialsRequest(users=users or None)
    return await harness.call(0, request, DescribeUserScramCredentialsResponse)


@pytest.mark.usefixtures("users")
async def test_without_names_all_users_are_described(harness: Harness) -> None:
    response = await described(harness)
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)
    assert [
        (one.user, one.error_code, [(info.mechanism, info.iterations) for info in one.credential_infos])
        for one in response.results
    ] == [(name, ErrorCode.NONE, [(1, 4096), (2, 4096)]) for name in ("alice", "bob")]


@pytest.mark.usefixtures("users")
async def test_unknown_and_repeated_names_have_kafkas_errors(harness: Harness) -> None:
    response = await described(harness, "alice", "eve", "bob", "bob")
    assert [(one.user, one.error_code, one.error_message) for one in response.results] == [
        ("alice", ErrorCode.NONE, None),
        (
            "eve",
            ErrorCode.RESOURCE_NOT_FOUND,
            "Attempt to describe a user credential that does not exist: eve",
        ),
        (
            "bob",
            ErrorCode.DUPLICATE_RESOURCE,
            "Cannot describe SCRAM credentials for the same user twice in a single request: bob",
        ),
    ]
    assert [len(one.credential_infos) for one in response.results] == [2, 0, 0]
