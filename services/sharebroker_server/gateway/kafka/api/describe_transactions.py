"""DescribeTransactions (65): state, producer and partitions of transactional ids."""

from __future__ import annotations

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.gateway.kafka.dispatch.call import Api, Call
from sharebroker_server.gateway.kafka.helpers.topics import topic_by_id
from sharebroker_server.gateway.produce.transactions import Described, describe_transactions
from sharebroker_server.kafka_wire.message_classes import Message, response_shapes

_R = response_shapes(65)


async def handle(call: Call) -> Message:
    """Each transactional id has its own result."""
    found = await describe_transactions(call.gateway, call.request.transactional_ids, call.deadline())
    return _R.DescribeTransactionsResponse(transaction_states=[_state(call, one) for one in found])


def _state(call: Call, one: Described) -> Message:
    topics: dict[str, list[int]] = {}
    for part in one.partitions:
        topic = topic_by_id(call, part.topic_id)  # __consumer_offsets where offsets are part of it
        if topic is not None:
            topics.setdefault(topic.name, []).append(part.partition)
    return _R.TransactionState(
        error_code=one.error_code,
        transactional_id=one.transactional_id,
        transaction_state=one.transaction_state,
        transaction_timeout_ms=one.transaction_timeout_ms,
        transaction_start_time_ms=one.transaction_start_time_ms,
        producer_id=one.producer_id,
        producer_epoch=one.producer_epoch,
        topics=[_R.TopicData(topic=name, partitions=indexes) for name, indexes in topics.items()],
    )


def _refuse(call: Call, error: KafkaError) -> Message:
    return _R.DescribeTransactionsResponse(
        transaction_states=[
            _R.TransactionState(error_code=error.code, transactional_id=name)
            for name in call.request.transactional_ids
        ]
    )


API = Api(65, (0, 0), handle, _refuse)
