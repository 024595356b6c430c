"""The rules for names of topics and groups."""

from __future__ import annotations

import re
from typing import Final

from sharebroker_protocol.errors import ErrorCode, FieldViolation, KafkaError

MAX_LENGTH: Final = 249
GROUP_ID_BYTES: Final = 2**15 - 1
"""The longest string in Kafka's protocol, in bytes."""
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(name: str, field: str = "name") -> None:
    """Raises INVALID_TOPIC_EXCEPTION for `field` unless Kafka accepts the name (`Topic.validate`)."""
    fault = _fault(name)
    if fault:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic name is invalid: {fault}",
            violations=[FieldViolation(field, fault)],
        )


def check_group_id(
    group_id: str, field: str = "group_id", code: ErrorCode = ErrorCode.INVALID_REQUEST
) -> None:
    """Raises `code` for `field` if the group id is empty or too long."""
    if not group_id:
        fault = "The group id must not be empty."
    elif len(group_id.encode()) > GROUP_ID_BYTES:
        fault = f"The group id must not exceed {GROUP_ID_BYTES} bytes."
    else:
        return
    raise KafkaError(code, fault, violations=[FieldViolation(field, fault)])


def _fault(name: str) -> str:
    if not name:
        return "the empty string is not allowed."
    if name in (".", ".."):
        return "'.' and '..' are not allowed."
    if len(name) > MAX_LENGTH:
        return f"the length of '{name[:32]}...' is longer than {MAX_LENGTH} characters."
    if not _LEGAL.fullmatch(name):
        return f"{name!r} contains characters other than ASCII letters, digits, '.', '_', '-'."
    return ""
