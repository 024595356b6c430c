"""What the APIs of transactions have in common."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.catalog.internal_topics import check_not_internal
from sharebroker_server.gateway.kafka.dispatch.call import Call

_ENDING = 2
"""The transaction.version with which every end of a transaction raises the producer epoch (KIP-890)."""


def check_transactional_id(call: Call, name: str) -> None:
    """Raises INVALID_REQUEST for an empty one, NOT_COORDINATOR where another broker coordinates it."""
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The transactional id must not be empty.")
    call.view.check_coordinates(name)


def transaction_version(call: Call, *, implied: bool) -> int:
    """The transaction.version that a request is meant for: its API's version tells (`implied`)."""
    return _ENDING if implied and call.door.features.get("transaction.version", 0) >= _ENDING else 0


def known_partitions(call: Call, name: str, indexes: Iterable[int]) -> Iterator[TopicIdPartition]:
    """The partitions that a request names. Raises UNKNOWN_TOPIC_OR_PARTITION."""
    check_not_internal(name)
    topic = call.gateway.topic(name)
    for index in indexes:
        if not 0 <= index < topic.partitions:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        yield TopicIdPartition(topic.topic_id, index)
