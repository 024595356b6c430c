"""Users: their credentials as the catalog has them, and changes through the owner of the catalog."""

from __future__ import annotations

from collections import Counter
from typing import Final, cast

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import admin_pb2 as admin
from sharebroker_server.catalog.catalog import TopicCatalog
from sharebroker_server.gateway.admin.visibility import await_visible
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.rpc.errors import refusal
from sharebroker_server.security import audit
from sharebroker_server.security.authentication.scram import ScramCredential, ScramMechanism, credential_of

_Result = admin.DescribeUserScramCredentialsResponse.Result
_Info = admin.DescribeUserScramCredentialsResponse.CredentialInfo
_PORTION: Final = 100
"""Users that one step of the event loop describes."""


async def describe_users(
    gateway: Gateway, request: admin.DescribeUserScramCredentialsRequest
) -> admin.DescribeUserScramCredentialsResponse:
    """Returns mechanisms and iterations of each user's credentials; of all users, if none is named."""
    counted = Counter(request.users or gateway.catalog.catalog.users.names())
    described = (_described(gateway, name, count) for name, count in counted.items())
    results = await gateway.turns.collect(described, _PORTION)
    return admin.DescribeUserScramCredentialsResponse(results=results)


async def alter_users(
    gateway: Gateway, request: pb.AlterUserScramCredentialsRequest, deadline: Deadline
) -> pb.AlterUserScramCredentialsResponse:
    """Changes credentials; returns when the metadata cache has the changes. Raises KafkaError."""
    changes = {one.name: f"set {_mechanism(one.mechanism)}" for one in request.upsertions}
    changes |= {one.name: f"deleted {_mechanism(one.mechanism)}" for one in request.deletions}
    with audit.changing("AlterUserScramCredentials", "USER", changes):
        response = await gateway.coordinators.of_catalog(
            lambda stub, left: stub.AlterUserScramCredentials(request, timeout=left), deadline
        )
    for result in response.results:
        user = result.user
        audit.change(
            "AlterUserScramCredentials", "USER", user, result.error_code, change=changes.get(user, "")
        )
    changed = {result.user for result in response.results if not result.error_code}
    expected: dict[tuple[str, int], ScramCredential | None] = {
        (one.name, one.mechanism): None for one in request.deletions if one.name in changed
    }
    for one in request.upsertions:
        if one.name in changed:
            expected[one.name, one.mechanism] = credential_of(
                ScramMechanism(one.mechanism), one.salted_password, one.salt, one.iterations
            )

    def visible(catalog: TopicCatalog) -> bool:
        return all(
            catalog.users.credentials(name).get(ScramMechanism(mechanism)) == credential
            for (name, mechanism), credential in expected.items()
        )

    await await_visible(gateway, visible, deadline)
    return response


def _mechanism(number: int) -> str:
    return ScramMechanism(number).label if number in set(ScramMechanism) else str(number)


def _described(gateway: Gateway, name: str, count: int) -> _Result:
    credentials = gateway.catalog.catalog.users.credentials(name)
    error = None
    if count > 1:
        text = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        error = KafkaError(ErrorCode.DUPLICATE_RESOURCE, text)
    elif not credentials:
        text = f"Attempt to describe a user credential that does not exist: {name}"
        error = KafkaError(ErrorCode.RESOURCE_NOT_FOUND, text)
    infos = [
        _Info(
            mechanism=cast("pb.ScramMechanism.ValueType", int(mechanism)),
            iterations=credentials[mechanism].iterations,
        )
        for mechanism in sorted(credentials)
    ]
    return _Result(user=name, credential_infos=[] if error else infos, **refusal(error))
