"""Settings and callbacks of a share consumer. Setting names are Kafka's, with underscores for dots."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import Any, Final, Literal, NamedTuple, Protocol

from sharebroker.client_errors import DEFAULT_CLIENT_ID, check_settings
from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.model import LONGEST_LOCK_MS, SHORTEST_LOCK_MS, TopicPartition
from sharebroker_protocol.records.record import AcknowledgeType, Record


class RebalanceListener(Protocol):
    """Receives changes of the assignment.

    The consumer calls it in the application's thread or task, within its own calls. A method must not call
    the consumer, except for `wakeup`.
    """

    def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        """No new records arrive from these partitions; records already held can still be acknowledged."""
        ...

    def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        """Records of these partitions arrive from now on, in addition to the ones assigned before."""
        ...

    def on_partitions_lost(self, partitions: frozenset[TopicPartition]) -> None:
        """The coordinator fenced this member; it lost these partitions and joins again automatically."""
        ...


class RecordResult(NamedTuple):
    """The outcome of one record's acknowledgement, as `commit` returns it."""

    topic: str
    """The name of the topic."""
    partition: int
    """The partition number."""
    offset: int
    """The record's offset."""
    kind: AcknowledgeType
    """The acknowledge type that was sent."""
    error: KafkaError | None
    """None if the acknowledgement is applied and durable."""


_AS_RESULT: Final = partial(tuple.__new__, RecordResult)  # a third of the time of its constructor


class AcknowledgementOutcome(NamedTuple):
    """The outcome of acknowledging consecutive offsets (argument of `acknowledgement_commit_callback`)."""

    topic: str
    """The name of the topic."""
    partition: int
    """The partition number."""
    offsets: Sequence[int]
    """The acknowledged offsets."""
    kind: AcknowledgeType
    """The acknowledge type that was sent."""
    error: KafkaError | None
    """None if the acknowledgement is applied and durable."""

    def results(self) -> Iterable[RecordResult]:
        """Returns the outcome of each record."""
        topic, partition, offsets, kind, error = self
        fields = zip(repeat(topic), repeat(partition), offsets, repeat(kind), repeat(error), strict=False)
        return map(_AS_RESULT, fields)


class LockLost(NamedTuple):
    """A record whose lock was lost before its acknowledgement was confirmed (see `lock_lost_callback`).

    The record is delivered again, perhaps to another member.
    """

    topic: str
    """The name of the topic."""
    partition: int
    """The partition number."""
    offset: int
    """The record's offset."""
    delivery_count: int
    """The number of deliveries including this one; 1 on the first."""
    reason: str
    """How the lock was lost: it timed out, the partition's leader changed, or the stream ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig:
    """Settings of a share consumer, with Kafka's names where Kafka has the setting.

    Raises KafkaError INVALID_CONFIG, with one violation per field, for values out of range.
    The callbacks run in the application's thread or task within a call of the consumer. They must not call
    the consumer, except for `wakeup`.
    """

    client_id: str = DEFAULT_CLIENT_ID
    """A name that `sharebroker groups members` shows and quotas apply to (Kafka: client.id)."""
    client_rack: str | None = None
    """The rack of this client, shown in group descriptions (Kafka: client.rack)."""
    share_acknowledgement_mode: Literal["explicit", "implicit"] = "explicit"
    """Kafka: share.acknowledgement.mode, but the default differs.

    "explicit": the application acknowledges each record before the next poll. "implicit" (Kafka's default):
    the next poll, iteration step or commit accepts the records returned before. The default is explicit here,
    so that no record is accepted by accident.
    """
    auto_offset_reset: str | None = None
    """Where the group starts in partitions without a start offset: "latest" (a group's default), "earliest",
    or "by_duration:PnDTnHnMn.nS". It is set as the group's `share.auto.offset.reset` when the consumer joins;
    None leaves the group's value."""
    share_acquire_mode: Literal["batch_optimized", "record_limit"] = "batch_optimized"
    """Kafka: share.acquire.mode. "batch_optimized" acquires whole record batches, so that a poll may return
    more than `max_poll_records`; "record_limit" never exceeds that limit."""
    max_poll_records: int = 500
    """The number of records that one poll returns (Kafka: max.poll.records)."""
    prefetch_records: int = 1000
    """The largest number of records acquired before the application polls for them; 0 disables prefetching.
    A slow application gets fewer, so that locks do not time out while records wait."""
    auto_renew: bool = False
    """Whether the consumer renews the locks of all held records until they are acknowledged."""
    lock_ms: int = 0
    """The length of the locks of received records, and of their renewals: 1000 to the broker's
    `group.share.max.lock.ms`. 0: the group's `share.record.lock.duration.ms`. Locks of 60,000 ms or more are
    durable: they survive a fail-over and a broken stream. They end when the consumer leaves the group."""
    deserializer: Callable[[Record], Any] | None = None
    """Computes `record.data`. An exception is raised as RecordDeserializationError."""
    listener: RebalanceListener | None = None
    """Receives changes of the assignment (Kafka: ConsumerRebalanceListener)."""
    acknowledgement_commit_callback: Callable[[AcknowledgementOutcome], None] | None = None
    """Receives the outcome of each acknowledgement (Kafka: AcknowledgementCommitCallback).

    Its exceptions are logged.
    """
    lock_lost_callback: Callable[[LockLost], None] | None = None
    """Runs once for each received record whose lock was lost; no counterpart in Kafka.

    The consumer logs a warning as well. Exceptions of the callback are logged. An acknowledgement without a
    response counts as not confirmed, although the server may have applied it.
    """
    retry_backoff_ms: int = 100
    """The first wait before a failed connection or heartbeat is retried (Kafka: retry.backoff.ms)."""
    retry_backoff_max_ms: int = 1_000
    """The longest such wait; it doubles with each attempt (Kafka: retry.backoff.max.ms)."""
    request_timeout_ms: int = 30_000
    """How long a heartbeat waits for its response (Kafka: request.timeout.ms)."""
    default_api_timeout_ms: int = 60_000
    """The default time limit of `commit` and `unsubscribe` (Kafka: default.api.timeout.ms)."""

    def __post_init__(self) -> None:
        shortest = {"lock_ms": SHORTEST_LOCK_MS} if self.lock_ms else {}
        check_settings(self, _MINIMUM | shortest, _CHOICES, {"lock_ms": LONGEST_LOCK_MS})


_MINIMUM: Final[dict[str, int]] = {
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
