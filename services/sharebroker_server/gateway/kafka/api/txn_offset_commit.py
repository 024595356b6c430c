"""TxnOffsetCommit (28): how far a consumer group has come, if a transaction is committed."""

from __future__ import annotations

from typing import Any, Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_server.gateway.kafka.dispatch.call import Api, Call
from sharebroker_server.gateway.kafka.dispatch.error_versions import told
from sharebroker_server.gateway.kafka.helpers.consumer_groups import committed, coordinator, not_committed
from sharebroker_server.gateway.kafka.helpers.transactional import transaction_version
from sharebroker_server.kafka_wire.message_classes import Message, response_shapes

_R = response_shapes(28)
_ADDS: Final = 5
"""From here on the group becomes part of the transaction with its first offsets."""


async def handle(call: Call) -> Message:
    """Each partition has its own result."""
    asked = call.request
    if not asked.transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The transactional id must not be empty.")
    request = pb.TxnOffsetCommitRequest(
        transactional_id=asked.transactional_id,
        producer_id=asked.producer_id,
        producer_epoch=asked.producer_epoch,
        transaction_version=transaction_version(call, implied=call.version >= _ADDS),
        commit=pb.OffsetCommitRequest(
            group_id=asked.group_id,
            generation_id=asked.generation_id,
            member_id=asked.member_id,
            group_instance_id=asked.group_instance_id,
        ),
    )

    async def send() -> pb.OffsetCommitResponse:
        return await coordinator(
            call, asked.group_id, lambda stub: stub.TxnOffsetCommit, request, call.deadline()
        )

    return _answer(call, await committed(call, request.commit, send))


def _answer(call: Call, topics: list[tuple[Any, list[tuple[int, int]]]]) -> Message:
    return _R.TxnOffsetCommitResponse(
        topics=[
            _R.TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    _R.TxnOffsetCommitResponsePartition(
                        partition_index=index, error_code=told(API.key, call.version, ErrorCode(code))
                    )
                    for index, code in some
                ],
            )
            for topic, some in topics
        ]
    )


def _refuse(call: Call, error: KafkaError) -> Message:
    return _answer(call, not_committed(call, error.code))


API = Api(28, (0, 5), handle, _refuse)
