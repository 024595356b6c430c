"""Parts of a request for several brokers, and one response from theirs.

A request lists topics, and a topic lists partitions; the response lists a result for each partition. A
`Shape` names these arrays. The functions return new messages, and leave those of the client unchanged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.kafka_wire.schema import Message

M = TypeVar("M", bound=Message)
T = TypeVar("T", bound=Hashable)
I = TypeVar("I")  # noqa: E741 - an item of a request

Key = tuple[str, int]
"""The id or the name of a topic, and the index of a partition."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Where a request and its response list topics and partitions, by the names of the arrays.

    `topic` is the class of a topic in the response. `index` and `result_index` are the fields with the number
    of the partition. `name` and `result_name` are the fields with the name of the topic; one with an id has
    it in `topic_id`.
    """

    topic: type[Message]
    topics: str = "topics"
    partitions: str = "partitions"
    index: str = "partition_index"
    name: str = "name"
    responses: str = "topics"
    results: str = "partitions"
    result_index: str = "partition_index"
    result_name: str = "name"

    def parts(self, request: Message) -> Iterator[tuple[Any, Any]]:
        """Yields each partition of a request, after its topic."""
        for topic in getattr(request, self.topics):
            for part in getattr(topic, self.partitions):
                yield topic, part

    def key(self, topic: Message, part: Message) -> Key:
        """Returns what identifies a partition of a request."""
        return _topic_key(topic, self.name), getattr(part, self.index)


def replaced(message: M, **changes: Any) -> M:
    """Returns a copy of a message with other values of some fields."""
    return type(message)(**{**vars(message), **changes})


def without(message: M, *fields: str) -> M:
    """Returns a copy of a message in which some fields have their defaults."""
    return type(message)(**{name: value for name, value in vars(message).items() if name not in fields})


def split(shape: Shape, request: M, targets: Iterable[T]) -> dict[T, M]:
    """Returns a request for each target, which has the partitions of this target in their order.

    `targets` are those of all partitions, in the order of the request.
    """
    found: dict[T, list[tuple[Any, list[Any]]]] = {}
    for (topic, part), target in zip(shape.parts(request), targets, strict=True):
        topics = found.setdefault(target, [])
        if not topics or topics[-1][0] is not topic:
            topics.append((topic, []))
        topics[-1][1].append(part)
    return {
        target: replaced(
            request,
            **{shape.topics: [replaced(topic, **{shape.partitions: parts}) for topic, parts in topics]},
        )
        for target, topics in found.items()
    }


def merge(
    shape: Shape, request: Message, responses: Iterable[Message], missing: Callable[[Any], Message]
) -> list[Message]:
    """Returns the topics of a response to the whole request, in its order.

    Each partition has its result from one of the responses, or that of `missing`. If the request names a
    partition twice, each of the two has a result of its own as long as there are two.
    """
    found = _results(shape, responses)
    topics = []
    for topic in getattr(request, shape.topics):
        results = []
        for part in getattr(topic, shape.partitions):
            same = found.get(shape.key(topic, part))
            if same is None:
                results.append(missing(part))
            else:
                results.append(same.popleft() if len(same) > 1 else same[0])
        topics.append(_topic(shape, topic, results))
    return topics


def divide(
    items: Sequence[I], is_forwarded: Callable[[I], bool]
) -> tuple[list[I], list[I], Callable[[Iterable[Any], Iterable[Any]], list[Any]]]:
    """Returns the items that are forwarded, the others, and a function that joins their results in order."""
    choices = [is_forwarded(item) for item in items]

    def join(forwarded: Iterable[Any], own: Iterable[Any]) -> list[Any]:
        sources = iter(own), iter(forwarded)
        return [next(sources[choice]) for choice in choices]

    return (
        [item for item, choice in zip(items, choices, strict=True) if choice],
        [item for item, choice in zip(items, choices, strict=True) if not choice],
        join,
    )


def in_order(keys: Iterable[Any], results: Iterable[Any], key: Callable[[Any], Any]) -> list[Any]:
    """Returns the results in the order of the keys. Raises UNKNOWN_SERVER_ERROR if one is missing."""
    found = {key(result): result for result in results}
    try:
        return [found[one] for one in keys]
    except KeyError as missing:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"The Kafka cluster returned no result for {missing}."
        ) from None


def _topic_key(topic: Message, name: str) -> str:
    return getattr(topic, "topic_id", "") or getattr(topic, name) or ""


def _topic(shape: Shape, topic: Message, results: list[Message]) -> Message:
    fields: dict[str, Any] = {shape.results: results}
    if shape.result_name in shape.topic.field_names:
        fields[shape.result_name] = getattr(topic, shape.name)
    if "topic_id" in shape.topic.field_names:
        fields["topic_id"] = getattr(topic, "topic_id", "")
    return shape.topic(**fields)


def _results(shape: Shape, responses: Iterable[Message]) -> dict[Key, deque[Message]]:
    found: dict[Key, deque[Message]] = {}
    for response in responses:
        for topic in getattr(response, shape.responses):
            name = _topic_key(topic, shape.result_name)
            for result in getattr(topic, shape.results):
                found.setdefault((name, getattr(result, shape.result_index)), deque()).append(result)
    return found
