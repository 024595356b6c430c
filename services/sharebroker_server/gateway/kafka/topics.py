"""Topics and partitions as Kafka's clients name them, internal topics included."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.names import INTERNAL_TOPIC_IDS, INTERNAL_TOPIC_NAMES
from sharebroker_server.catalog.records import Topic
from sharebroker_server.gateway.admin import internal_topics
from sharebroker_server.gateway.kafka.call import Call

A = TypeVar("A")
I = TypeVar("I")  # noqa: E741 - an item of a request


class Located(NamedTuple, Generic[I]):
    """A partition that this broker serves; `item` is its part of the request."""

    topic: Topic
    item: I


class Rejected(NamedTuple, Generic[I]):
    """A partition that this broker does not serve; `topic` is None if it does not exist."""

    item: I
    error: KafkaError
    topic: Topic | None = None


class _HasPartitions(Protocol):
    @property
    def partitions(self) -> Sequence[Any]: ...


T = TypeVar("T", bound=_HasPartitions)


def topics(call: Call) -> list[Topic]:
    """Returns all topics."""
    return [*call.gateway.catalog.catalog.topics(), *internal_topics.topics(call.gateway)]


def topic_of(call: Call, name: str | None, topic_id: str = "") -> Topic:
    """Returns the topic with an id, or with a name if there is no id; without a name the id is required.

    Raises UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION.
    """
    if not topic_id and name is not None:
        return (
            internal_topics.topic(call.gateway, name)
            if name in INTERNAL_TOPIC_IDS
            else call.gateway.topic(name)
        )
    topic = topic_by_id(call, topic_id)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    return topic


def topic_by_id(call: Call, topic_id: str) -> Topic | None:
    """Returns the topic with this id."""
    if topic_id in INTERNAL_TOPIC_NAMES:
        return internal_topics.topic(call.gateway, INTERNAL_TOPIC_NAMES[topic_id])
    return call.gateway.catalog.topic_by_id(topic_id)


def is_internal(topic: Topic) -> bool:
    """Returns whether the topic is internal: read-only, and visible to Kafka clients only."""
    return topic.topic_id in INTERNAL_TOPIC_NAMES


def locate(
    call: Call, item: I, index: int, leader_epoch: int = -1, *, name: str | None, topic_id: str = ""
) -> Located[I] | Rejected[I]:
    """Looks up the partition `index` of a topic;

    `leader_epoch` is the one that the client has, -1 for none.
    """
    topic = None
    try:
        topic = topic_of(call, name, topic_id)
        if not 0 <= index < topic.partitions:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        check_leadership(call, topic, index, leader_epoch)
    except KafkaError as error:
        return Rejected(item, error, topic)
    return Located(topic, item)


def check_leadership(call: Call, topic: Topic, index: int, leader_epoch: int = -1) -> None:
    """Raises FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER."""
    if 0 <= leader_epoch < call.view.epoch:
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
    if leader_epoch > call.view.epoch:
        raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)
    if not call.view.leads(topic.topic_id, index):
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)


async def each_partition(
    partitions: Iterable[Located[I] | Rejected[I]],
    ordinary: Callable[[list[Located[I]]], Awaitable[Sequence[A]]],
    internal: Callable[[list[Located[I]]], Awaitable[Sequence[A]]],
    rejected: Callable[[Rejected[I]], A],
) -> list[A]:
    """Returns the result of each partition, in order. One call serves the partitions of internal topics;
    then one call serves those of ordinary topics.
    """
    results: dict[int, A] = {}
    located: tuple[dict[int, Located[I]], dict[int, Located[I]]] = ({}, {})
    for number, partition in enumerate(partitions):
        if isinstance(partition, Rejected):
            results[number] = rejected(partition)
        else:
            located[is_internal(partition.topic)][number] = partition
    for is_of_internal, serve in ((True, internal), (False, ordinary)):
        if batch := located[is_of_internal]:
            results.update(zip(batch, await serve([*batch.values()]), strict=True))
    return [results[number] for number in range(len(results))]


def by_topic(topics: Iterable[T], results: Iterable[A]) -> list[tuple[T, list[A]]]:
    """Groups the results of partitions by the topics of the request."""
    remaining = iter(results)
    return [(topic, [next(remaining) for _ in topic.partitions]) for topic in topics]


_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE, _CLUSTER_ACTION = range(3, 10)
_DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE = range(10, 13)
_CONFIGS: Final = (_DESCRIBE_CONFIGS, _ALTER_CONFIGS)

_NOT_REQUESTED: Final = -(1 << 31)


def _bits(*operations: int) -> int:
    return sum(1 << operation for operation in operations)


_TOPIC: Final = _bits(_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE, *_CONFIGS)
_GROUP: Final = _bits(_READ, _DELETE, _DESCRIBE, *_CONFIGS)
_CLUSTER: Final = _bits(_CREATE, _ALTER, _DESCRIBE, _CLUSTER_ACTION, _IDEMPOTENT_WRITE, *_CONFIGS)


def topic_operations(*, requested: bool) -> int:
    """Returns the operations on a topic; Kafka's "not requested" value unless `requested`."""
    return _TOPIC if requested else _NOT_REQUESTED


def group_operations(*, requested: bool) -> int:
    """Returns the operations on a group; Kafka's "not requested" value unless `requested`."""
    return _GROUP if requested else _NOT_REQUESTED


def cluster_operations(*, requested: bool) -> int:
    """Returns the operations on the cluster; Kafka's "not requested" value unless `requested`."""
    return _CLUSTER if requested else _NOT_REQUESTED
