"""RPCs of DeadLetterService, and the rights to the letters of a redrive."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.gateway.v1 import dead_letters_pb2 as pb
from sharebroker_protocol.gateway.v1.dead_letters_pb2_grpc import DeadLetterServiceStub
from sharebroker_server.gateway.grpc.dead_letters import DeadLetterServicer
from sharebroker_server.security.acl import AclOperation, AclResourceType
from tests.testkit.authorizer import TableAuthorizer
from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.dead_letters.letters import LetterLogs


@pytest.fixture
def stub(harness: Harness) -> Any:
    logs = LetterLogs(harness)
    logs.letters(0, 7)
    return DeadLetterServiceStub(harness.channel)


async def test_letters_are_read_redriven_and_discarded(stub: Any) -> None:
    assert len((await stub.ListDeadLetters(pb.ListDeadLettersRequest(topic="flights"))).letters) == 1
    assert len((await stub.SummarizeDeadLetters(pb.SummarizeDeadLettersRequest(topic="flights"))).rows) == 1
    assert (await stub.GetDeadLetter(pb.GetDeadLetterRequest(topic="flights"))).value == b"value"
    (result,) = (await stub.RedriveDeadLetters(pb.RedriveDeadLettersRequest(topic="flights"))).results
    assert result.copy_offset == 100
    (part,) = (await stub.DiscardDeadLetters(pb.DiscardDeadLettersRequest(topic="flights"))).partitions
    assert part.before_offset == 1


@pytest.mark.parametrize(
    ("operation", "kind", "code"),
    [
        (AclOperation.WRITE, AclResourceType.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (AclOperation.READ, AclResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    ],
)
async def test_each_letter_needs_the_rights_to_its_target(
    harness: Harness, stub: Any, operation: AclOperation, kind: AclResourceType, code: ErrorCode
) -> None:
    """The request names neither the group nor the topic of the letter."""
    table = harness.gateway.authorizer = TableAuthorizer()
    table.deny(operation, kind)
    (result,) = (await stub.RedriveDeadLetters(pb.RedriveDeadLettersRequest(topic="flights"))).results
    assert ErrorCode(result.error_code) is code


def test_the_service_has_five_rpcs() -> None:
    assert {name for name in vars(DeadLetterServicer) if name.endswith(("Letters", "Letter"))} == {
        "ListDeadLetters",
        "SummarizeDeadLetters",
        "GetDeadLetter",
        "RedriveDeadLetters",
        "DiscardDeadLetters",
    }
