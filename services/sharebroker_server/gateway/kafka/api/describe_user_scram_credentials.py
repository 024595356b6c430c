"""DescribeUserScramCredentials (50): the mechanisms and iterations of users' credentials."""

from __future__ import annotations

from sharebroker_protocol.gateway.v1 import admin_pb2 as pb
from sharebroker_server.gateway.admin.users import describe_users
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.gateway.kafka.convert import to_kafka
from sharebroker_server.gateway.kafka.topics import PORTION
from sharebroker_server.kafka_wire.messages import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from sharebroker_server.security.acl import AclOperation

_result = to_kafka(
    pb.DescribeUserScramCredentialsResponse.Result,
    DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult,
)


async def handle(call: Call[DescribeUserScramCredentialsRequest]) -> DescribeUserScramCredentialsResponse:
    """Returns one result per user; without names, of all users."""
    call.rights.require_on_cluster(AclOperation.DESCRIBE)
    names = [user.name for user in call.request.users or ()]
    response = await describe_users(call.gateway, pb.DescribeUserScramCredentialsRequest(users=names))
    results = await call.gateway.turns.collect(map(_result, response.results), PORTION)
    return DescribeUserScramCredentialsResponse(results=results)


# As in Kafka, the results of a request that failed name no user.
_refuse = Refusal(DescribeUserScramCredentialsResponse, {"results": "users"}, user="")
API = Api(50, (0, 0), handle, _refuse)
