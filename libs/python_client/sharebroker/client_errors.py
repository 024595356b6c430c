"""Errors that only a client has. Refusals of the server are plain `KafkaError`."""

from __future__ import annotations

import warnings

from sharebroker_protocol.errors import ErrorCode, KafkaError


class WakeupError(Exception):
    """`wakeup()` interrupted a waiting call (Kafka: WakeupException)."""


class RecordDeserializationError(Exception):
    """The consumer's `deserializer` failed on a record (Kafka: RecordDeserializationException).

    The record is released unless the application decides otherwise before it polls again:
    `consumer.acknowledge(topic, partition, offset, kind)`.
    """

    def __init__(self, topic: str, partition: int, offset: int) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        super().__init__(f"{topic}-{partition}@{offset} cannot be deserialised")


class ConnectionLostError(KafkaError):
    """The connection broke before the answer came: what was asked for may or may not have been done."""

    def __init__(self, detail: str = "") -> None:
        text = "The connection was lost before the answer came"
        super().__init__(ErrorCode.NETWORK_EXCEPTION, f"{text}: {detail}" if detail else text + ".")


def warn_unclosed(what: object) -> None:
    """Tell whoever dropped a client that still was at work (`python -X dev` shows it)."""
    name = type(what).__name__
    text = f"A {name} was dropped without close(): use it in a `with` block."
    warnings.warn(text, ResourceWarning, stacklevel=3, source=what)
