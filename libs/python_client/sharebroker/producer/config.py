"""Settings of a producer. Names are Kafka's, with underscores for dots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sharebroker.client_errors import DEFAULT_CLIENT_ID, check_settings
from sharebroker_protocol.records.batches import CODECS


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig:
    """Settings of a producer. Raises KafkaError INVALID_CONFIG, with one violation per invalid field."""

    client_id: str = DEFAULT_CLIENT_ID
    """The name that quotas apply to (Kafka: client.id)."""
    enable_idempotence: bool = True
    """Whether a retry appends no record twice (Kafka: enable.idempotence). Without it, a retry after a lost
    response can append a duplicate.
    """
    compression_type: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "none"
    """The codec of record batches (Kafka: compression.type)."""
    linger_ms: int = 0
    """How long a batch waits for more records (Kafka: linger.ms). Batches also fill while the previous
    request of their partition is in flight, so that 0 costs little throughput.
    """
    batch_size: int = 64 * 1024
    """Bytes of records in a batch before compression (Kafka: batch.size)."""
    max_request_size: int = 1024 * 1024
    """Bytes of one partition's batches in one request, and of one record (Kafka: max.request.size)."""
    buffer_memory: int = 32 * 1024 * 1024
    """Bytes of unconfirmed records; `send` waits while there are more (Kafka: buffer.memory)."""
    max_block_ms: int = 60_000
    """How long `send` waits for buffer memory or for a topic's partitions (Kafka: max.block.ms)."""
    delivery_timeout_ms: int = 120_000
    """How long a record is retried (Kafka: delivery.timeout.ms). Then it fails with REQUEST_TIMED_OUT, and
    may have been appended or not.
    """
    request_timeout_ms: int = 30_000
    """How long a request waits for its response before the producer reconnects (Kafka: request.timeout.ms).
    """
    metadata_max_age_ms: int = 300_000
    """The age at which a topic's partition count is read again (Kafka: metadata.max.age.ms)."""
    retry_backoff_ms: int = 100
    """The first wait before a failed batch is sent again (Kafka: retry.backoff.ms)."""
    retry_backoff_max_ms: int = 1_000
    """The longest such wait; it doubles with each attempt (Kafka: retry.backoff.max.ms)."""

    def __post_init__(self) -> None:
        check_settings(self, _MINIMUM, {"compression_type": CODECS})


_MINIMUM: Mapping[str, int] = {
    "linger_ms": 0,
    "batch_size": 1,
    "max_request_size": 1,
    "buffer_memory": 1,
    "max_block_ms": 1,
    "delivery_timeout_ms": 1,
    "request_timeout_ms": 1,
    "metadata_max_age_ms": 1,
    "retry_backoff_ms": 1,
    "retry_backoff_max_ms": 1,
}
