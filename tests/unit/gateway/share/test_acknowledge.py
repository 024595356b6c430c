"""ShareAcknowledge, and the end of share sessions: by a request, with the connection, by eviction."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.model import AckBatch, TopicIdPartition
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_server.gateway.authorization import Caller, Rights
from sharebroker_server.gateway.core.share_sessions import SessionKey
from sharebroker_server.gateway.share.acknowledge import ShareAcknowledge, share_acknowledge
from sharebroker_server.rpc.errors import wire
from tests.testkit.waiting import eventually
from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.fakes import TOPIC, Leader
from tests.unit.gateway.share.requests import ACCEPT, ME, RENEW, Batch, acknowledge, answered, fetch, refused


async def test_session_end_releases_only_its_own_records(harness: Harness) -> None:
    await harness.share.ShareFetch(fetch(0, 0))
    harness.gateway.sessions.disconnect(harness.gateway.sessions.find(ME).connection)
    await harness.share.ShareFetch(fetch(0, 0))
    await harness.share.ShareFetch(fetch(-1))
    await eventually(lambda: harness.leader.of(leader.ReleaseMemberRequest))
    first, second = (request.session_id for request in harness.leader.of(leader.AcquireRecordsRequest))
    assert first != second
    assert [request.session_id for request in harness.leader.of(leader.ReleaseMemberRequest)] == [second]


async def test_session_replaced_during_its_close_continues(harness: Harness) -> None:
    await harness.share.ShareFetch(fetch(0, 0))

    def meanwhile(request: Any) -> Any:
        harness.gateway.sessions.open(ME, "another connection", (), 0.0)
        return Leader.all_is_well(request)

    harness.leader.answer = meanwhile
    await harness.share.ShareFetch(fetch(-1, 0, acks={0: [(0, 0, [ACCEPT])]}))
    await harness.gateway.stop()  # waits for requests in flight
    assert harness.leader.of(leader.ReleaseMemberRequest) == []


async def test_acknowledge_with_epoch_minus_1_closes_the_session(harness: Harness) -> None:
    await harness.share.ShareFetch(fetch(0, 0))
    response = await harness.share.ShareAcknowledge(acknowledge(-1, {0: [(0, 0, [ACCEPT])]}))
    assert answered(response)[0].error_code == 0
    await eventually(lambda: harness.leader.of(leader.ReleaseMemberRequest))
    code = (await refused(harness.share.ShareAcknowledge(acknowledge(-1, {})))).code
    assert code is ErrorCode.SHARE_SESSION_NOT_FOUND


async def test_fetches_and_acknowledgements_share_one_epoch(harness: Harness) -> None:
    await harness.share.ShareFetch(fetch(0, 0))
    await harness.share.ShareAcknowledge(acknowledge(1, {}))
    await harness.share.ShareFetch(fetch(2))
    error = await refused(harness.share.ShareAcknowledge(acknowledge(2, {})))
    assert error.code is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert error.metadata["expected_epoch"] == "3"


# Acknowledgements that are rejected for their partition, which is unchanged; the other is applied.
WRONG = [
    ([(9, 0, [ACCEPT])], ErrorCode.INVALID_REQUEST),
    ([(0, 9, [ACCEPT]), (5, 6, [ACCEPT])], ErrorCode.INVALID_REQUEST),
    ([(0, 9, [ACCEPT, ACCEPT])], ErrorCode.INVALID_REQUEST),
    ([(0, 9, [])], ErrorCode.INVALID_REQUEST),
    ([(0, 9, [7])], ErrorCode.INVALID_REQUEST),
    ([(0, 9, [RENEW])], ErrorCode.INVALID_REQUEST),
]


@pytest.mark.parametrize(("wrong", "code"), WRONG)
async def test_invalid_ack_batches_fail_their_partition_only(
    harness: Harness, wrong: list[Batch], code: ErrorCode
) -> None:
    await harness.share.ShareFetch(fetch(0, 0, 1))
    acks = {0: wrong, 1: [(0, 0, [ACCEPT])]}
    parts = answered(await harness.share.ShareAcknowledge(acknowledge(1, acks)))
    assert {index: part.error_code for index, part in parts.items()} == {0: code, 1: 0}
    parts = answered(await harness.share.ShareFetch(fetch(2, 0, 1, acks=acks)))
    assert {index: part.acknowledge_error_code for index, part in parts.items()} == {0: code, 1: 0}
    for request in harness.leader.of(leader.AcknowledgeRecordsRequest):
        assert [part.partition for part in request.partitions] == [1]


@pytest.mark.parametrize(("leaving", "code"), [(False, ErrorCode.NOT_LEADER_OR_FOLLOWER), (True, None)])
async def test_leaving_broker_forwards_acknowledgements(
    harness: Harness, leaving: bool, code: ErrorCode | None
) -> None:
    """The records were fetched there, so no other broker would accept the acknowledgements."""
    part = TopicIdPartition(TOPIC.topic_id, 0)
    await harness.share.ShareFetch(fetch(0, 0))
    caller = Caller("connection", Rights(harness.gateway, None), lambda *_: False, leaving)
    request = ShareAcknowledge(caller, SessionKey("group", "me"), 1, {part: [AckBatch(0, 9, [ACCEPT])]})
    results = await share_acknowledge(harness.gateway, request, Deadline(90))
    assert [error and error.code for error in results.values()] == [code]
    assert len(harness.leader.of(leader.AcknowledgeRecordsRequest)) == leaving


def test_error_codes_equal_kafkas() -> None:
    assert wire(ErrorCode.INVALID_RECORD_STATE) == 121
    assert delivery.ACKNOWLEDGE_TYPE_RENEW == RENEW
