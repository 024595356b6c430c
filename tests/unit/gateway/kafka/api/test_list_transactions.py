"""ListTransactions: the transactions of this broker, with filters."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.transaction_coordinator.v1 import transaction_coordinator_pb2 as pb
from sharebroker_server.kafka_wire.messages import ListTransactionsRequest, ListTransactionsResponse
from sharebroker_server.security.acl import AclOperation, AclResourceType
from tests.testkit.authorizer import TableAuthorizer
from tests.unit.gateway.kafka.api.harness import SHARDS, Harness


def reply(_: pb.ListTransactionsRequest) -> pb.ListTransactionsResponse:
    response = pb.ListTransactionsResponse(shards=SHARDS, unknown_state_filters=["Odd"])
    response.transaction_states.add(transactional_id="t", producer_id=5, transaction_state="Ongoing")
    return response


@pytest.mark.parametrize(("version", "duration"), [(0, None), (1, 60_000)])
async def test_transactions_are_listed(harness: Harness, version: int, duration: int | None) -> None:
    harness.services.reply("ListTransactions", reply)
    request = ListTransactionsRequest(
        state_filters=["Ongoing", "Odd"], producer_id_filters=[5], duration_filter=60_000
    )
    response = await harness.call(version, request, ListTransactionsResponse)
    found = [
        (one.transactional_id, one.producer_id, one.transaction_state) for one in response.transaction_states
    ]
    assert found == [("t", 5, "Ongoing")]
    assert response.unknown_state_filters == ["Odd"]
    sent = harness.services.only("ListTransactions")
    assert (sent.state_filters, sent.producer_id_filters) == (["Ongoing", "Odd"], [5])
    assert (sent.duration_filter if sent.HasField("duration_filter") else None) == duration


async def test_transactions_of_other_coordinators_are_omitted(harness: Harness) -> None:
    harness.services.reply("ListTransactions", reply)
    harness.lead_elsewhere()
    response = await harness.call(1, ListTransactionsRequest(), ListTransactionsResponse)
    assert (response.error_code, response.transaction_states) == (ErrorCode.NONE, [])


async def test_transactions_that_the_client_may_not_describe_are_omitted(
    harness: Harness, authorizer: TableAuthorizer
) -> None:
    harness.services.reply("ListTransactions", reply)
    authorizer.deny(AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID, "t")
    response = await harness.call(1, ListTransactionsRequest(), ListTransactionsResponse)
    assert (response.error_code, response.transaction_states) == (ErrorCode.NONE, [])
