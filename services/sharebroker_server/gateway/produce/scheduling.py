"""The delivery times of published records: checks the fields, and adds the header that they become."""

from __future__ import annotations

from collections.abc import Iterable

from sharebroker_protocol.errors import ErrorCode, FieldViolation, KafkaError, invalid_field
from sharebroker_protocol.gateway.v1 import produce_pb2 as pb
from sharebroker_protocol.records.record import DELIVER_AT_HEADER
from sharebroker_server.config.topic import TopicConfig
from sharebroker_server.record_log.record_validation import delivery_limits


def add_delivery_headers(
    topic: str, records: Iterable[pb.PublishRecord], config: TopicConfig, now_ms: int
) -> None:
    """Adds the header to each record with a delivery time.

    Raises:
        KafkaError: INVALID_REQUEST for invalid fields, or if the topic ignores delivery times;
            INVALID_TIMESTAMP for a time that is too far away.
    """
    limits = delivery_limits(config)
    for index, record in enumerate(records):
        if not (record.deliver_at_ms or record.deliver_after_ms):
            continue
        field, due_ms = _delivery_time(f"records[{index}]", record, now_ms)
        if limits is None:
            raise invalid_field(
                field,
                f"Topic '{topic}' ignores delivery times; set its config delivery.delay.enable=true, or "
                "publish without one.",
            )
        try:
            limits.check(due_ms, now_ms)
        except KafkaError as error:
            raise KafkaError(
                error.code,
                error.message,
                metadata=error.metadata,
                violations=[FieldViolation(field, error.message)],
            ) from error
        record.headers.add(key=DELIVER_AT_HEADER, value=str(due_ms).encode())


def _delivery_time(path: str, record: pb.PublishRecord, now_ms: int) -> tuple[str, int]:
    """Returns the path of the field that is set, and the time in ms since the Unix epoch."""
    if record.deliver_at_ms and record.deliver_after_ms:
        raise invalid_field(f"{path}.deliver_after_ms", "deliver_at_ms is set, too; set one of them.")
    name, value = (
        ("deliver_at_ms", record.deliver_at_ms)
        if record.deliver_at_ms
        else ("deliver_after_ms", record.deliver_after_ms)
    )
    if value < 0:
        raise invalid_field(f"{path}.{name}", "A delivery time is not negative.", ErrorCode.INVALID_TIMESTAMP)
    return f"{path}.{name}", value if record.deliver_at_ms else now_ms + value
