"""Topics and partitions as Kafka's clients name them; the internal topics are among them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.internal_topics import IDS, NAMES
from sharebroker_server.catalog.records import Topic
from sharebroker_server.gateway.admin import internal_topics
from sharebroker_server.gateway.kafka.dispatch.call import Call

A = TypeVar("A")


class Part(NamedTuple):
    """A partition that is asked for at the right broker; `asked` is its part of the request."""

    topic: Topic
    asked: Any


class Refused(NamedTuple):
    """A partition that is not served here; `topic` where there is one."""

    asked: Any
    error: KafkaError
    topic: Topic | None = None


def topics(call: Call) -> list[Topic]:
    """All topics."""
    return [*call.gateway.catalog.catalog.topics(), *internal_topics.topics(call.gateway)]


def topic_of(call: Call, name: str | None, topic_id: str = "") -> Topic:
    """The topic of an id, or of a name where none is given; without a name the id must be one.

    Raises UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION.
    """
    if not topic_id and name is not None:
        return internal_topics.topic(call.gateway, name) if name in IDS else call.gateway.topic(name)
    topic = topic_by_id(call, topic_id)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    return topic


def topic_by_id(call: Call, topic_id: str) -> Topic | None:
    """The topic of this id."""
    if topic_id in NAMES:
        return internal_topics.topic(call.gateway, NAMES[topic_id])
    return call.gateway.catalog.topic_by_id(topic_id)


def is_internal(topic: Topic) -> bool:
    """Whether the topic can only be looked at, and by Kafka's clients alone."""
    return topic.topic_id in NAMES


def part_of(
    call: Call, asked: Any, index: int, leader_epoch: int = -1, *, name: str | None, topic_id: str = ""
) -> Part | Refused:
    """The partition `index` of a topic; `leader_epoch` is the one the client knows of, -1 for none."""
    topic = None
    try:
        topic = topic_of(call, name, topic_id)
        if not 0 <= index < topic.partitions:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        check_led(call, topic, index, leader_epoch)
    except KafkaError as error:
        return Refused(asked, error, topic)
    return Part(topic, asked)


def check_led(call: Call, topic: Topic, index: int, leader_epoch: int = -1) -> None:
    """Raises FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER."""
    if 0 <= leader_epoch < call.view.epoch:
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
    if leader_epoch > call.view.epoch:
        raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)
    if not call.view.leads(topic.topic_id, index):
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)


async def answers(
    located: Iterable[Part | Refused],
    ordinary: Callable[[list[Part]], Awaitable[Sequence[A]]],
    internal: Callable[[list[Part]], Awaitable[Sequence[A]]],
    refused: Callable[[Refused], A],
) -> list[A]:
    """The answer for each part, in order; each kind of topics is asked at once, the internal ones first."""
    found: dict[int, A] = {}
    led: tuple[dict[int, Part], dict[int, Part]] = ({}, {})
    for number, part in enumerate(located):
        if isinstance(part, Refused):
            found[number] = refused(part)
        else:
            led[is_internal(part.topic)][number] = part
    for kept, ask in ((True, internal), (False, ordinary)):
        some = led[kept]
        if some:
            found.update(zip(some, await ask([*some.values()]), strict=True))
    return [found[number] for number in range(len(found))]


def parts(request: Any) -> list[tuple[Any, Any]]:
    """Topics and partitions of a request that lists partitions by topic."""
    return [(topic, part) for topic in request.topics for part in topic.partitions]


def by_topic(request: Any, given: Iterable[A]) -> list[tuple[Any, list[A]]]:
    """Answers for `parts(request)`, by topic again."""
    left = iter(given)
    return [(topic, [next(left) for _ in topic.partitions]) for topic in request.topics]
