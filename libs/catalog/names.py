"""Which topic names are legal. Pure."""

from __future__ import annotations

import re
from typing import Final

from sharebroker.errors import ErrorCode, FieldViolation, KafkaError

MAX_LENGTH: Final = 249
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(name: str) -> None:
    """Raises INVALID_TOPIC_EXCEPTION unless Kafka takes the name (`Topic.validate`)."""
    if not name:
        raise _illegal("Topic name is invalid: the empty string is not allowed.")
    if name in (".", ".."):
        raise _illegal("Topic name is invalid: '.' and '..' are not allowed.")
    if len(name) > MAX_LENGTH:
        raise _illegal(
            f"Topic name is invalid: the length of '{name[:32]}...' is longer than {MAX_LENGTH} characters."
        )
    if not _LEGAL.fullmatch(name):
        raise _illegal(
            f"Topic name is invalid: {name!r} has characters other than ASCII letters, digits, '.', '_', '-'."
        )


def _illegal(message: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_TOPIC_EXCEPTION, message, violations=[FieldViolation("name", message)]
    )
