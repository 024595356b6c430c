"""Names of spans and attributes: OpenTelemetry's messaging conventions, and our own additions."""

from __future__ import annotations

from typing import Final

SYSTEM: Final = "messaging.system"
OPERATION: Final = "messaging.operation.name"
TYPE: Final = "messaging.operation.type"
TOPIC: Final = "messaging.destination.name"
PARTITION: Final = "messaging.destination.partition.id"
OFFSET: Final = "messaging.kafka.offset"
GROUP: Final = "messaging.consumer.group.name"
CLIENT: Final = "messaging.client.id"
COUNT: Final = "messaging.batch.message_count"
DELIVERY: Final = "messaging.sharebroker.delivery_count"
SETTLED: Final = "messaging.sharebroker.settled"
STATE: Final = "messaging.sharebroker.state"
REASON: Final = "messaging.sharebroker.reason"

CREATE: Final = "create"
SEND: Final = "send"
RECEIVE: Final = "receive"
PROCESS: Final = "process"
SETTLE: Final = "settle"
"""OpenTelemetry's operation type of acknowledgements; the attribute SETTLED follows it."""

SHAREBROKER: Final = "sharebroker"


def about(operation: str, type_: str, topic: str, partition: int | None = None) -> dict[str, str | int]:
    """Returns the attributes that every span of records has."""
    attributes: dict[str, str | int] = {SYSTEM: SHAREBROKER, OPERATION: operation, TYPE: type_, TOPIC: topic}
    if partition is not None:
        attributes[PARTITION] = str(partition)
    return attributes
