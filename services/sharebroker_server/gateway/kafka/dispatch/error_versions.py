"""Maps error codes introduced after an API version to the code that version used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sharebroker_protocol.errors import ErrorCode

_PRODUCE: Final = 0
_FETCH: Final = 1
_DELETE_TOPICS: Final = 20
_INIT_PRODUCER_ID: Final = 22
_ADD_PARTITIONS_TO_TXN: Final = 24
_ADD_OFFSETS_TO_TXN: Final = 25
_END_TXN: Final = 26
_TXN_OFFSET_COMMIT: Final = 28

_REPLACED: Final[Mapping[tuple[int, ErrorCode], tuple[int, ErrorCode]]] = {
    (_PRODUCE, ErrorCode.KAFKA_STORAGE_ERROR): (4, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    (_PRODUCE, ErrorCode.TRANSACTION_ABORTABLE): (11, ErrorCode.INVALID_TXN_STATE),
    (_FETCH, ErrorCode.KAFKA_STORAGE_ERROR): (6, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    (_DELETE_TOPICS, ErrorCode.TOPIC_DELETION_DISABLED): (3, ErrorCode.INVALID_REQUEST),
    (_INIT_PRODUCER_ID, ErrorCode.PRODUCER_FENCED): (4, ErrorCode.INVALID_PRODUCER_EPOCH),
    (_ADD_PARTITIONS_TO_TXN, ErrorCode.PRODUCER_FENCED): (2, ErrorCode.INVALID_PRODUCER_EPOCH),
    (_ADD_OFFSETS_TO_TXN, ErrorCode.PRODUCER_FENCED): (2, ErrorCode.INVALID_PRODUCER_EPOCH),
    (_TXN_OFFSET_COMMIT, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS): (2, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    (_TXN_OFFSET_COMMIT, ErrorCode.TRANSACTION_ABORTABLE): (4, ErrorCode.INVALID_TXN_STATE),
    (_END_TXN, ErrorCode.PRODUCER_FENCED): (2, ErrorCode.INVALID_PRODUCER_EPOCH),
}
"""The first API version that has an error code, and the code before it (Kafka: `KafkaApis` and the comments
of its
messages)."""


def for_version(key: int, version: int, code: ErrorCode) -> ErrorCode:
    """Returns the error code that a version of the API `key` has for an error."""
    since, before = _REPLACED.get((key, code), (0, code))
    return before if version < since else code
