"""Settings of a share consumer. Names are Kafka's where Kafka has one, with underscores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from sharebroker_protocol.errors import ErrorCode, FieldViolation, KafkaError
from sharebroker_protocol.model import TopicPartition
from sharebroker_protocol.records.record import AcknowledgeType, Record


class RebalanceListener(Protocol):
    """Told of changes of the assignment, in the application's own thread or task, within its calls."""

    def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        """No new records come from these; records held of them can still be acknowledged."""
        ...

    def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        """Records come from these, too, from now on."""
        ...

    def on_partitions_lost(self, partitions: frozenset[TopicPartition]) -> None:
        """The group counted this member out; it joins again."""
        ...


class AcknowledgementOutcome(NamedTuple):
    """What became of the acknowledgement of a run of offsets; `error` None means applied and durable."""

    topic: str
    partition: int
    offsets: Sequence[int]
    kind: AcknowledgeType
    error: KafkaError | None


class LockLost(NamedTuple):
    """The lock of these offsets ran out or moved away before they were acknowledged."""

    topic: str
    partition: int
    offsets: range


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig:
    """How a share consumer behaves. Refuses values that cannot work with INVALID_CONFIG.

    `share_acknowledgement_mode`: "explicit" (each record is acknowledged by the application) or "implicit"
    (what was handed out is accepted when the next is asked for). Kafka's default is the latter; here it is
    the former, so that nothing is accepted that was not said to be.
    `share_acquire_mode`: "batch_optimized" (whole record batches; limits are soft) or "record_limit".
    `prefetch_records`: records taken ahead of what the application works on, at most; fewer when it works
    slowly.
    `auto_renew`: keep the locks of all records held alive until they are acknowledged.
    `deserializer`: makes `record.data`; a failure is raised as RecordDeserializationError.
    `acknowledgement_commit_callback` and `lock_lost_callback` are called by the application's thread or
    task within a call of the consumer and must not call it, but for `wakeup`.
    """

    client_id: str = "sharebroker-python"
    client_rack: str | None = None
    share_acknowledgement_mode: Literal["explicit", "implicit"] = "explicit"
    share_acquire_mode: Literal["batch_optimized", "record_limit"] = "batch_optimized"
    max_poll_records: int = 500
    prefetch_records: int = 1000
    auto_renew: bool = False
    deserializer: Callable[[Record], Any] | None = None
    listener: RebalanceListener | None = None
    acknowledgement_commit_callback: Callable[[AcknowledgementOutcome], None] | None = None
    lock_lost_callback: Callable[[LockLost], None] | None = None
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    request_timeout_ms: int = 30_000
    default_api_timeout_ms: int = 60_000

    def __post_init__(self) -> None:
        wrong = [
            FieldViolation(name, f"must be at least {least}, not {getattr(self, name)}")
            for name, least in _LEAST.items()
            if getattr(self, name) < least
        ]
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                wrong.append(FieldViolation(name, f"must be one of {', '.join(choices)}"))
        if wrong:
            text = "; ".join(f"{violation.field} {violation.description}" for violation in wrong)
            raise KafkaError(ErrorCode.INVALID_CONFIG, text, violations=wrong)


_LEAST: Mapping[str, int] = {
    "max_poll_records": 1,
    "prefetch_records": 0,
    "retry_backoff_ms": 1,
    "retry_backoff_max_ms": 1,
    "request_timeout_ms": 1,
    "default_api_timeout_ms": 1,
}
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "share_acknowledgement_mode": ("explicit", "implicit"),
    "share_acquire_mode": ("batch_optimized", "record_limit"),
}
