"""AlterUserScramCredentials (51): creates, replaces and deletes credentials of users."""

from __future__ import annotations

from typing import Any

from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_protocol.errors import KafkaError
from sharebroker_server.gateway.admin.users import alter_users
from sharebroker_server.gateway.kafka.call import Api, Call
from sharebroker_server.kafka_wire.messages import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from sharebroker_server.security.acl import AclOperation

_Result = AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult


async def handle(call: Call[AlterUserScramCredentialsRequest]) -> AlterUserScramCredentialsResponse:
    """Returns one result per user."""
    call.rights.require_on_cluster(AclOperation.ALTER)
    request = pb.AlterUserScramCredentialsRequest(
        deletions=[
            pb.AlterUserScramCredentialsRequest.Deletion(name=one.name, mechanism=_number(one))
            for one in call.request.deletions
        ],
        upsertions=[
            pb.AlterUserScramCredentialsRequest.Upsertion(
                name=one.name,
                mechanism=_number(one),
                iterations=one.iterations,
                salt=one.salt,
                salted_password=one.salted_password,
            )
            for one in call.request.upsertions
        ],
    )
    response = await alter_users(call.gateway, request, call.deadline())
    return AlterUserScramCredentialsResponse(
        results=[
            _Result(user=one.user, error_code=one.error_code, error_message=one.error_message or None)
            for one in response.results
        ]
    )


def _number(item: Any) -> Any:
    """Returns the mechanism as the proto's enum; an unknown number stays as it is."""
    return item.mechanism


def _refuse(call: Call[Any], error: KafkaError) -> AlterUserScramCredentialsResponse:
    """Returns the error for each user (Kafka: `AlterUserScramCredentialsRequest.getErrorResponse`)."""
    request: AlterUserScramCredentialsRequest = call.request
    names = [*(one.name for one in request.deletions), *(one.name for one in request.upsertions)]
    results = [
        _Result(user=name, error_code=error.code, error_message=error.message)
        for name in dict.fromkeys(names)
    ]
    return AlterUserScramCredentialsResponse(results=results)


API = Api(51, (0, 0), handle, _refuse)
