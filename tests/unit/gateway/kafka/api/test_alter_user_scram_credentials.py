"""AlterUserScramCredentials: the owner of the catalog decides; a failure has an error for each user."""

from __future__ import annotations

from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.kafka_wire.messages import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from sharebroker_server.rpc.errors import wire
from tests.unit.gateway.kafka.api.harness import Harness

_Deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion
_Upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
REQUEST = AlterUserScramCredentialsRequest(
    deletions=[_Deletion(name="bob", mechanism=2)],
    upsertions=[_Upsertion(name="alice", mechanism=9, iterations=4096, salt=b"s", salted_password=b"p")],
)

REJECTED = wire(ErrorCode.UNSUPPORTED_SASL_MECHANISM)


async def test_each_user_has_its_own_result(harness: Harness) -> None:
    results = [
        pb.AlterUserScramCredentialsResponse.Result(user="bob"),
        pb.AlterUserScramCredentialsResponse.Result(user="alice", error_code=REJECTED, error_message="no"),
    ]
    harness.services.reply("AlterUserScramCredentials", pb.AlterUserScramCredentialsResponse(results=results))
    response = await harness.call(0, REQUEST, AlterUserScramCredentialsResponse)
    assert [(one.user, one.error_code, one.error_message) for one in response.results] == [
        ("bob", ErrorCode.NONE, None),
        ("alice", ErrorCode.UNSUPPORTED_SASL_MECHANISM, "no"),
    ]
    sent = harness.services.only("AlterUserScramCredentials")
    assert [(one.name, one.mechanism) for one in sent.deletions] == [("bob", 2)]
    assert [
        (one.name, one.mechanism, one.iterations, one.salt, one.salted_password) for one in sent.upsertions
    ] == [("alice", 9, 4096, b"s", b"p")]


async def test_a_failure_has_an_error_for_each_user(harness: Harness) -> None:
    harness.services.fail("AlterUserScramCredentials", ErrorCode.INVALID_REQUEST)
    response = await harness.call(0, REQUEST, AlterUserScramCredentialsResponse)
    assert [(one.user, one.error_code) for one in response.results] == [
        ("bob", ErrorCode.INVALID_REQUEST),
        ("alice", ErrorCode.INVALID_REQUEST),
    ]
