"""DescribeTransactions (65): the state, producer and partitions of transactional ids."""

from __future__ import annotations

from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.gateway.kafka.convert import to_kafka
from sharebroker_server.gateway.kafka.topics import topic_by_id
from sharebroker_server.gateway.produce.transactions import Described, describe_transactions
from sharebroker_server.kafka_wire.messages import DescribeTransactionsRequest, DescribeTransactionsResponse

_State = DescribeTransactionsResponse.TransactionState
_Topic = DescribeTransactionsResponse.TopicData
_state = to_kafka(Described, _State)


async def handle(call: Call[DescribeTransactionsRequest]) -> DescribeTransactionsResponse:
    """Returns one result per transactional id."""
    found = await describe_transactions(call.gateway, call.request.transactional_ids, call.deadline())
    return DescribeTransactionsResponse(
        transaction_states=[_state(state, topics=_topics(call, state)) for state in found]
    )


def _topics(call: Call, state: Described) -> list[_Topic]:
    topics: dict[str, list[int]] = {}
    for partition in state.partitions:
        topic = topic_by_id(call, partition.topic_id)  # __consumer_offsets if offsets are part of it
        if topic is not None:
            topics.setdefault(topic.name, []).append(partition.partition)
    return [_Topic(topic=name, partitions=indexes) for name, indexes in topics.items()]


_refuse = Refusal(
    DescribeTransactionsResponse,
    {"transaction_states": "transactional_ids", "transaction_states.transactional_id": str},
)
API = Api(65, (0, 0), handle, _refuse)
