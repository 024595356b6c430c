"""Settings of a producer. Names are Kafka's, with underscores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sharebroker_protocol.errors import ErrorCode, FieldViolation, KafkaError
from sharebroker_protocol.records.compression import CODECS


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig:
    """How a producer behaves. Refuses values that cannot work with INVALID_CONFIG.

    `linger_ms`: how long a batch waits for more records. While a partition's last request is under way the
    next batches fill anyway, so that 0 costs little throughput.
    `batch_size`: bytes of a batch before compression; `max_request_size`: bytes of one partition in one
    request.
    `buffer_memory`: bytes of records that wait; beyond it `send` waits.
    `delivery_timeout_ms`: until when a record is tried again; then it fails with REQUEST_TIMED_OUT, and may
    have arrived or not. A retry whose first try did arrive makes a duplicate.
    `request_timeout_ms`: how long an answer is waited for before the connection is made anew.
    `max_block_ms`: how long `send` waits at most, for room or to learn of a topic.
    """

    compression_type: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "none"
    linger_ms: int = 0
    batch_size: int = 64 * 1024
    max_request_size: int = 1024 * 1024
    buffer_memory: int = 32 * 1024 * 1024
    max_block_ms: int = 60_000
    delivery_timeout_ms: int = 120_000
    request_timeout_ms: int = 30_000
    metadata_max_age_ms: int = 300_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000

    def __post_init__(self) -> None:
        wrong = [
            FieldViolation(name, f"must be at least {least}, not {getattr(self, name)}")
            for name, least in _LEAST.items()
            if getattr(self, name) < least
        ]
        if self.compression_type not in CODECS:
            wrong.append(FieldViolation("compression_type", f"must be one of {', '.join(CODECS)}"))
        if wrong:
            text = "; ".join(f"{violation.field} {violation.description}" for violation in wrong)
            raise KafkaError(ErrorCode.INVALID_CONFIG, text, violations=wrong)


_LEAST: Mapping[str, int] = {
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
