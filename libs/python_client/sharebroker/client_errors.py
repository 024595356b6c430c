"""Errors that only a client raises. Errors that a server returns are plain `KafkaError`."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping
from typing import Final

from sharebroker_protocol.errors import ErrorCode, FieldViolation, KafkaError


class WakeupError(Exception):
    """`wakeup()` interrupted a call that waits (Kafka: WakeupException)."""


class RecordDeserializationError(Exception):
    """The consumer's `deserializer` raised an exception (Kafka: RecordDeserializationException).

    The exception is the `__cause__`. The record is released unless the application acknowledges it before the
    next poll: `consumer.acknowledge(error.topic, error.partition, error.offset, kind)`.
    """

    def __init__(self, topic: str, partition: int, offset: int) -> None:
        self.topic = topic
        """The name of the topic."""
        self.partition = partition
        """The partition number."""
        self.offset = offset
        """The offset of the record."""
        super().__init__(f"{topic}-{partition}@{offset} cannot be deserialised")


class ConnectionLostError(KafkaError):
    """The connection broke before the response arrived; the request may or may not have been applied."""

    def __init__(self, detail: str = "") -> None:
        text = "The connection was lost before the response arrived"
        super().__init__(ErrorCode.NETWORK_EXCEPTION, f"{text}: {detail}" if detail else text + ".")


DEFAULT_CLIENT_ID: Final = "sharebroker-python"
_LONGEST_CLIENT_ID: Final = 249
_UNLIMITED: Final[Mapping[str, int]] = {}
_CLIENT_ID: Final = re.compile(f"[ -~]{{0,{_LONGEST_CLIENT_ID}}}")


def check_settings(
    settings: object,
    minimum: Mapping[str, int],
    choices: Mapping[str, Iterable[str]],
    maximum: Mapping[str, int] = _UNLIMITED,
) -> None:
    """Raises KafkaError INVALID_CONFIG, with one violation per invalid field of `settings`."""
    violations = [
        FieldViolation(name, f"must be at least {least}, not {getattr(settings, name)}")
        for name, least in minimum.items()
        if not getattr(settings, name) >= least  # NaN is not, either
    ]
    violations += [
        FieldViolation(name, f"must be at most {most}, not {getattr(settings, name)}")
        for name, most in maximum.items()
        if getattr(settings, name) > most
    ]
    violations += [
        FieldViolation(name, f"must be one of {', '.join(allowed)}")
        for name, allowed in choices.items()
        if getattr(settings, name) not in allowed
    ]
    if not _CLIENT_ID.fullmatch(getattr(settings, "client_id", "")):
        text = f"must consist of at most {_LONGEST_CLIENT_ID} printable ASCII characters"
        violations.append(FieldViolation("client_id", text))
    if violations:
        text = "; ".join(f"{violation.field} {violation.description}" for violation in violations)
        raise KafkaError(ErrorCode.INVALID_CONFIG, text, violations=violations)


def warn_unclosed(client: object) -> None:
    """Emits a ResourceWarning for a client dropped while in use; `python -X dev` shows it."""
    name = type(client).__name__
    text = f"A {name} was dropped without close(); use it in a `with` block."
    warnings.warn(text, ResourceWarning, stacklevel=3, source=client)
