"""Checks that the APIs of transactions share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.catalog.names import check_not_internal
from sharebroker_server.gateway.kafka.call import Call

_EPOCH_PER_TRANSACTION = 2
"""The transaction.version with which every end of a transaction raises the producer epoch (KIP-890)."""


def check_transactional_id(call: Call, transactional_id: str) -> None:
    """Raises INVALID_REQUEST for an empty id, NOT_COORDINATOR if another broker coordinates it."""
    if not transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The transactional id must not be empty.")
    call.view.check_coordinates(transactional_id)


def transaction_version(call: Call, *, implied: bool) -> int:
    """Returns the transaction.version of a request;

    `implied` states whether its API version implies level 2.
    """
    enabled = call.listener.features.get("transaction.version", 0) >= _EPOCH_PER_TRANSACTION
    return _EPOCH_PER_TRANSACTION if implied and enabled else 0


def known_partitions(call: Call, name: str, indexes: Iterable[int]) -> Iterator[TopicIdPartition]:
    """Yields the partitions that a request names. Raises UNKNOWN_TOPIC_OR_PARTITION."""
    check_not_internal(name)
    topic = call.gateway.topic(name)
    for index in indexes:
        if not 0 <= index < topic.partitions:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        yield TopicIdPartition(topic.topic_id, index)
