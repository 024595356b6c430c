"""The key of a share-partition's state, and its text form, which is Kafka's."""

from __future__ import annotations

import re
from typing import Final

from sharebroker_protocol.errors import ErrorCode, FieldViolation, KafkaError
from sharebroker_protocol.model import SharePartitionKey

INT32_MAX: Final = 2**31 - 1
LONGEST_STRING: Final = 2**15 - 1
"""The longest string in Kafka's protocol, in bytes."""

_TOPIC_ID: Final = re.compile(r"[A-Za-z0-9_-]{22}")
_ZERO_TOPIC_ID: Final = "A" * 22


def make_key(group_id: str, topic_id: str, partition: int) -> SharePartitionKey:
    """Returns a validated key; raises INVALID_REQUEST with the name of the invalid field."""
    if not 0 < len(group_id.encode()) <= LONGEST_STRING:
        raise _invalid("group_id", f"must have 1 to {LONGEST_STRING} bytes")
    if not _TOPIC_ID.fullmatch(topic_id) or topic_id == _ZERO_TOPIC_ID:
        raise _invalid("topic_id", "must be a UUID in base64url, 22 characters, not zero")
    if not 0 <= partition <= INT32_MAX:
        raise _invalid("partition", "must not be negative")
    return SharePartitionKey(group_id, topic_id, partition)


def _invalid(field: str, description: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_REQUEST, f"{field} {description}", violations=[FieldViolation(field, description)]
    )
