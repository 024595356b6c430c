"""The settings of a log: from the topic's configuration and the limits of this process."""

from __future__ import annotations

from dataclasses import dataclass, field

from sharebroker_server.config.topic import TopicConfig
from sharebroker_server.record_log.core.batch import BatchHeader, Buffer, parse_headers
from sharebroker_server.record_log.core.log_state import Limits
from sharebroker_server.record_log.core.retention import Retention
from sharebroker_server.record_log.core.timestamp_bounds import TimestampBounds
from sharebroker_server.record_log.record_validation import check_records


@dataclass(frozen=True, slots=True)
class LogSettings:
    """A topic's configuration as far as it concerns the log, and the limits of this process.

    `log_append_time` is message.timestamp.type=LogAppendTime. `max_pending_bytes` limits the append queue,
    `max_group_bytes` one write to the store.
    """

    max_message_bytes: int = 1_048_588
    log_append_time: bool = False
    timestamp_bounds: TimestampBounds = field(default_factory=TimestampBounds)
    retention: Retention = field(default_factory=Retention)
    limits: Limits = field(default_factory=Limits)
    max_pending_bytes: int = 32 << 20
    max_group_bytes: int = 4 << 20

    @classmethod
    def of_topic(cls, topic: TopicConfig) -> LogSettings:
        """Returns the settings of a topic's partitions."""
        return cls(
            max_message_bytes=topic.max_message_bytes,
            log_append_time=topic.message_timestamp_type == "LogAppendTime",
            timestamp_bounds=TimestampBounds(
                topic.message_timestamp_before_max_ms, topic.message_timestamp_after_max_ms
            ),
            retention=Retention(
                topic.retention_ms, topic.retention_bytes, consumed=topic.retention_policy == "consumed"
            ),
        )

    def headers(self, data: Buffer, now_ms: int) -> list[BatchHeader]:
        """Returns the headers of a produce request's batches, after validating their records.

        Raises:
            KafkaError: as `parse_headers`, `check_records` and `TimestampBounds.check`.
        """
        headers = parse_headers(data, self.max_message_bytes)
        view, position = memoryview(data), 0
        for header in headers:
            check_records(header, view[position : position + header.size])
            position += header.size
        if not self.log_append_time:
            self.timestamp_bounds.check(headers, now_ms)
        return headers
