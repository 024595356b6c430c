"""DescribeTransactions (65): the state, producer and partitions of transactional ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sharebroker_server.aio import CALLS_AT_ONCE
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.gateway.kafka.convert import to_kafka
from sharebroker_server.gateway.kafka.topics import topic_by_id
from sharebroker_server.gateway.produce.transactions import Described, describe_transactions
from sharebroker_server.kafka_wire.messages import DescribeTransactionsRequest, DescribeTransactionsResponse
from sharebroker_server.security.acl import AclOperation, AclResourceType
from sharebroker_server.security.authorizer import denied

_STATES: Final = "transaction_states"
_State = DescribeTransactionsResponse.TransactionState
_Topic = DescribeTransactionsResponse.TopicData
_state = to_kafka(Described, _State)


async def handle(call: Call[DescribeTransactionsRequest]) -> DescribeTransactionsResponse:
    """Returns one result per transactional id."""
    states: list[_State] = []
    async for names in call.gateway.turns.portions(call.request.transactional_ids, CALLS_AT_ONCE):
        states += await _states(call, names)
    return DescribeTransactionsResponse(transaction_states=states)


async def _states(call: Call[DescribeTransactionsRequest], names: Sequence[str]) -> list[_State]:
    visible = call.rights.permitted(AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID, names)
    found = await describe_transactions(
        call.gateway, [name for name in names if name in visible], call.deadline()
    )
    states, error = iter(found), denied(AclResourceType.TRANSACTIONAL_ID)
    return [
        _described(call, next(states)) if name in visible else _refuse.item(_STATES, name, error)
        for name in names
    ]


def _described(call: Call, state: Described) -> _State:
    return _state(state, topics=_topics(call, state))


def _topics(call: Call, state: Described) -> list[_Topic]:
    topics: dict[str, list[int]] = {}
    for partition in state.partitions:
        topic = topic_by_id(call, partition.topic_id)  # __consumer_offsets if offsets are part of it
        if topic is not None and call.rights.allows(AclOperation.DESCRIBE, AclResourceType.TOPIC, topic.name):
            topics.setdefault(topic.name, []).append(partition.partition)
    return [_Topic(topic=name, partitions=indexes) for name, indexes in topics.items()]


_refuse = Refusal(
    DescribeTransactionsResponse,
    {_STATES: "transactional_ids", f"{_STATES}.transactional_id": str},
)
API = Api(65, (0, 0), handle, _refuse)
