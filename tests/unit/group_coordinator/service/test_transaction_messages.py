"""Messages of transactions: errors of partitions and of descriptions."""

from __future__ import annotations

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_protocol.transaction_coordinator.v1 import transaction_coordinator_pb2 as pb
from sharebroker_server.group_coordinator.service.transaction_messages import added, not_described
from sharebroker_server.rpc.errors import wire


def test_partitions_outside_the_transaction_have_an_error() -> None:
    request = pb.AddPartitionsToTxnRequest()
    for partition in (0, 1):
        request.partitions.add(topic_id="topic", partition=partition)
    response = added(request, {TopicIdPartition("topic", 1)}, 7)
    assert response.coordinator_epoch == 7
    assert [(part.partition, part.error_code) for part in response.partitions] == [
        (0, wire(ErrorCode.TRANSACTION_ABORTABLE)),
        (1, wire(ErrorCode.NONE)),
    ]


def test_an_error_takes_the_place_of_a_description() -> None:
    state = not_described("payments", KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, "There is none."))
    assert state.transactional_id == "payments"
    assert (state.error_code, state.error_message) == (
        wire(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND),
        "There is none.",
    )
