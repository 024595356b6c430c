"""Users through the gateway: visible after the change, described without secrets, Kafka's errors."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.gateway.v1 import admin_pb2 as admin
from tests.support.client import TIMEOUT, Client, connected, rejection, unique

SALT = b"a salt of 20 bytes.."
_Deletion = pb.AlterUserScramCredentialsRequest.Deletion
_Upsertion = pb.AlterUserScramCredentialsRequest.Upsertion


@pytest.fixture
async def client(server: str) -> AsyncIterator[Client]:
    async with connected(server) as made:
        yield made


def upsertion(user: str, iterations: int = 4096) -> _Upsertion:
    return _Upsertion(name=user, mechanism=1, iterations=iterations, salt=SALT, salted_password=b"k" * 32)  # type: ignore[arg-type]  # the number of the enum


def deletion(user: str) -> _Deletion:
    return _Deletion(name=user, mechanism=1)  # type: ignore[arg-type]  # the number of the enum


async def altered(client: Client, *changes: _Upsertion | _Deletion) -> dict[str, int]:
    request = pb.AlterUserScramCredentialsRequest(
        deletions=[one for one in changes if isinstance(one, _Deletion)],
        upsertions=[one for one in changes if isinstance(one, _Upsertion)],
    )
    response = await client.admin.AlterUserScramCredentials(request, timeout=TIMEOUT)
    return {one.user: one.error_code for one in response.results}


async def described(client: Client, user: str) -> tuple[int, list[tuple[int, int]]]:
    request = admin.DescribeUserScramCredentialsRequest(users=[user])
    (result,) = (await client.admin.DescribeUserScramCredentials(request, timeout=TIMEOUT)).results
    return result.error_code, [(info.mechanism, info.iterations) for info in result.credential_infos]


async def test_a_change_is_visible_in_the_next_call(client: Client) -> None:
    user = unique("user")
    assert await altered(client, upsertion(user)) == {user: ErrorCode.NONE}
    assert await described(client, user) == (ErrorCode.NONE, [(1, 4096)])
    assert await altered(client, upsertion(user, 8192)) == {user: ErrorCode.NONE}
    assert await described(client, user) == (ErrorCode.NONE, [(1, 8192)])
    assert await altered(client, deletion(user)) == {user: ErrorCode.NONE}
    assert await described(client, user) == (ErrorCode.RESOURCE_NOT_FOUND, [])


async def test_each_user_has_its_own_error(client: Client) -> None:
    user, twice, weak = unique("user"), unique("twice"), unique("weak")
    assert await altered(
        client, upsertion(user), upsertion(twice), deletion(twice), upsertion(weak, 1), deletion("stranger")
    ) == {
        user: ErrorCode.NONE,
        twice: ErrorCode.DUPLICATE_RESOURCE,
        weak: ErrorCode.UNACCEPTABLE_CREDENTIAL,
        "stranger": ErrorCode.RESOURCE_NOT_FOUND,
    }


async def test_a_request_with_too_many_changes_is_rejected(client: Client) -> None:
    changes = [upsertion(f"user-{number}") for number in range(1_001)]
    error = await rejection(altered(client, *changes))
    assert error.code is ErrorCode.INVALID_REQUEST
