"""Topics and partitions as Kafka's clients name them, internal topics included."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, Generic, NamedTuple, TypeVar

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.aio import Turns
from sharebroker_server.catalog.topics import INTERNAL_TOPIC_IDS, INTERNAL_TOPIC_NAMES, Topic
from sharebroker_server.gateway.admin import internal_topics
from sharebroker_server.gateway.kafka.call import Call
from sharebroker_server.gateway.kafka.cluster_view import LED_ELSEWHERE
from sharebroker_server.gateway.kafka.convert import topic_conversion
from sharebroker_server.kafka_wire.schema import Message
from sharebroker_server.security.acl import AclOperation, AclResourceType

A = TypeVar("A")
R = TypeVar("R")
M = TypeVar("M", bound=Message)
T = TypeVar("T")
P = TypeVar("P")
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

    @property
    def led_elsewhere(self) -> str:
        """The id of the topic if another broker leads the partition, else ""."""
        return self.topic.topic_id if self.topic is not None and self.error.code in LED_ELSEWHERE else ""


def topics(call: Call) -> list[Topic]:
    """Returns all topics."""
    return [*call.gateway.catalog.catalog.topics(), *internal_topics.topics(call.gateway)]


async def describable_topics(call: Call) -> list[Topic]:
    """Returns all topics that the client may DESCRIBE; their permissions are checked in portions."""
    return [
        topic
        async for portion in call.gateway.turns.portions(topics(call), PORTION)
        for topic in portion
        if call.rights.allows(AclOperation.DESCRIBE, AclResourceType.TOPIC, topic.name)
    ]


def topic_of(call: Call, operation: AclOperation | None, name: str | None, topic_id: str = "") -> Topic:
    """Returns the topic with an id, or with a name if there is no id; without a name the id is required.

    The client must be allowed to do the operation, if there is one; a name that it may not use is not looked
    up. Raises UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED.
    """
    if not topic_id and name is not None:
        if operation is not None:
            call.rights.require(operation, AclResourceType.TOPIC, name)
        return (
            internal_topics.topic(call.gateway, name)
            if name in INTERNAL_TOPIC_IDS
            else call.gateway.topic(name)
        )
    topic = topic_by_id(call, topic_id)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    if operation is not None:
        call.rights.require(operation, AclResourceType.TOPIC, topic.name)
    return topic


def topic_by_id(call: Call, topic_id: str) -> Topic | None:
    """Returns the topic with this id."""
    if topic_id in INTERNAL_TOPIC_NAMES:
        return internal_topics.topic(call.gateway, INTERNAL_TOPIC_NAMES[topic_id])
    return call.gateway.catalog.topic_by_id(topic_id)


def upstream_topic(call: Call, name: str, topic_id: str = "") -> Topic | None:
    """Returns a topic of the upstream cluster by its name or its id; None if it is not there."""
    catalog = call.gateway.catalog
    topic = catalog.topic_by_id(topic_id) if topic_id else catalog.topic(name)
    return topic if topic is not None and topic.upstream else None


def each_part(topics: Iterable[tuple[T, Iterable[P]]]) -> Iterator[tuple[T, P | None]]:
    """Yields each topic with None, then with each of its parts: a portion can end between two parts."""
    for topic, parts in topics:
        yield topic, None
        for part in parts:
            yield topic, part


async def convert_parts(
    turns: Turns,
    topics: Iterable[tuple[T, Iterable[P]]],
    convert: Callable[[T, list[A]], R],
    convert_part: Callable[[P], A],
) -> list[R]:
    """Returns each topic converted with a list of its converted parts, PORTION of both per turn."""
    found: list[R] = []
    converted: list[A] = []
    async for portion in turns.portions(each_part(topics), PORTION):
        for topic, part in portion:
            if part is None:
                converted = []
                found.append(convert(topic, converted))
            else:
                converted.append(convert_part(part))
    return found


def is_internal(topic: Topic) -> bool:
    """Returns whether the topic is internal: read-only, and visible to Kafka clients only."""
    return topic.topic_id in INTERNAL_TOPIC_NAMES


def locate(
    call: Call,
    operation: AclOperation | None,
    item: I,
    index: int,
    leader_epoch: int = -1,
    *,
    name: str | None,
    topic_id: str = "",
) -> Located[I] | Rejected[I]:
    """Looks up the partition `index` of a topic that the client does the operation to.

    `leader_epoch` is the one that the client has, -1 for none.
    """
    topic = None
    try:
        topic = topic_of(call, operation, name, topic_id)
        check_partition(call, topic, index, leader_epoch)
    except KafkaError as error:
        return Rejected(item, error, topic)
    return Located(topic, item)


def check_partition(call: Call, topic: Topic, index: int, leader_epoch: int = -1) -> None:
    """Raises UNKNOWN_TOPIC_OR_PARTITION, and if this broker does not lead the partition in this epoch
    FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH or NOT_LEADER_OR_FOLLOWER.
    """
    if not 0 <= index < topic.partitions:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if 0 <= leader_epoch < call.view.epoch:
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
    if leader_epoch > call.view.epoch:
        raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)
    if not call.view.leads(topic.topic_id, index):
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)


PORTION: Final = 500
"""Topics or partitions of a request that are served in one turn of the event loop."""


async def each_partition(
    partitions: Iterable[Located[I] | Rejected[I]],
    ordinary: Callable[[list[Located[I]]], Awaitable[Sequence[A]]],
    internal: Callable[[list[Located[I]]], Awaitable[Sequence[A]]],
    rejected: Callable[[Rejected[I]], A],
    turns: Turns | None = None,
    *,
    together: bool = False,
) -> list[A]:
    """Returns the result of each partition, in order. One call serves the partitions of internal topics;
    then one call serves those of ordinary topics.

    With `turns`, each call serves `PORTION` partitions at most, unless they are served `together`. Other
    requests are served in between, and while `partitions` are looked up.
    """
    results: dict[int, A] = {}
    located: tuple[dict[int, Located[I]], dict[int, Located[I]]] = ({}, {})
    for number, partition in enumerate(partitions):
        if turns is not None and number % PORTION == PORTION - 1:
            await turns.next()
        if isinstance(partition, Rejected):
            results[number] = rejected(partition)
        else:
            located[is_internal(partition.topic)][number] = partition
    for is_of_internal, serve in ((True, internal), (False, ordinary)):
        remaining = iter(located[is_of_internal].items())
        while portion := dict(islice(remaining, None if turns is None or together else PORTION)):
            results.update(zip(portion, await serve([*portion.values()]), strict=True))
            if turns is not None and not together:
                await turns.next()
    return [results[number] for number in range(len(results))]


async def by_topic(call: Call[Any], results: Iterable[Any], result: type[M]) -> list[M]:
    """Groups the results of partitions by the topics of the request; `result` is the class of a group.

    Results and groups are made in portions.
    """
    turns = call.gateway.turns
    made = await turns.collect(results, PORTION)
    return await turns.collect(grouped(call.request.topics, made, result), PORTION)


def grouped(topics: Sequence[Any], results: Iterable[Any], result: type[M]) -> Iterator[M]:
    """Yields the results of partitions by the topics of the request; `result` is the class of a group."""
    remaining = iter(results)
    classes: Any = (type(topics[0]), result) if topics else ()
    for topic in topics:
        yield topic_conversion(*classes)(topic, partitions=[*islice(remaining, len(topic.partitions))])


def describe_topic(
    call: Call,
    topic: Topic,
    indexes: range,
    result: type[M],
    partition: Callable[..., Any],
    operations: int,
) -> M:
    """Returns a topic with these partitions; `result` and `partition` make the structs of the API.

    `operations` are those that the client may do to the topic, as bits.
    """
    leaders = {index: call.view.leader(topic.topic_id, index) for index in indexes}
    return result(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=is_internal(topic),
        partitions=[
            partition(
                partition_index=index,
                leader_id=leader,
                leader_epoch=call.leader_epoch(topic, index),
                replica_nodes=(leader,),
                isr_nodes=(leader,),
            )
            for index, leader in leaders.items()
        ],
        topic_authorized_operations=operations,
    )
