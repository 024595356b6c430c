"""A record as the application sees it, and the acquisition under which it holds it."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from sharebroker.acks.acknowledgement import Acknowledgement


class AcknowledgeType(IntEnum):
    """What is said of a record; Kafka's numbers (org.apache.kafka.clients.consumer.AcknowledgeType)."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class RawRecord(Protocol):
    """What the batch decoder gives for a record."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class AcknowledgementSink(Protocol):
    """Where a record's acknowledgement goes. `detail` is a release's delay in ms or a reject's reason."""

    def acknowledge(
        self, record: Record, kind: AcknowledgeType, detail: int | str | None = None
    ) -> Acknowledgement:
        """Raises IllegalStateError when this record cannot be acknowledged (any more)."""
        ...


class Acquisition:
    """A run of offsets of one partition, acquired together: one lock token, one deadline, one delivery count.

    `deadline` is in seconds since the Unix epoch. `remaining` counts offsets that are not finally decided,
    `lost` lists the ranges whose lock is known to be gone (last inclusive).
    """

    __slots__ = (
        "deadline",
        "delivery_count",
        "first",
        "last",
        "lost",
        "partition",
        "remaining",
        "sink",
        "token",
        "topic",
        "topic_id",
    )

    def __init__(
        self, topic: tuple[str, str], partition: int, offsets: tuple[int, int], sink: AcknowledgementSink
    ) -> None:
        """`topic` is (id, name), `offsets` (first, last), last inclusive."""
        self.topic_id, self.topic = topic
        self.partition = partition
        self.first, self.last = offsets
        self.sink = sink
        self.delivery_count = 1
        self.token = 0
        self.deadline = float("inf")
        self.remaining = self.last - self.first + 1
        self.lost: list[tuple[int, int]] = []

    def part(self, first: int, last: int) -> Acquisition:
        """The same acquisition for some of its offsets, to give those a fate of their own."""
        part = Acquisition((self.topic_id, self.topic), self.partition, (first, last), self.sink)
        part.delivery_count = self.delivery_count
        part.token = self.token
        part.deadline = self.deadline
        return part

    def holds(self, offset: int, now: float) -> bool:
        """Whether the lock of `offset` may still be ours at `now` (seconds since the Unix epoch)."""
        return now < self.deadline and not any(first <= offset <= last for first, last in self.lost)


class Record:
    """One record, held under an acquisition lock until it is acknowledged.

    Each of accept, release, reject and renew gives an `Acknowledgement`: await it (asyncio) or take its
    `result()` (threads) for this record's own confirmed outcome, or ignore it at no cost.
    """

    __slots__ = ("_raw", "acknowledgement", "acquisition", "data", "offset")

    def __init__(self, raw: RawRecord, acquisition: Acquisition) -> None:
        self._raw = raw
        self.acquisition = acquisition
        self.offset: int = raw.offset
        self.acknowledgement: Acknowledgement | None = None
        """The last one made for this record and not superseded; None while the record is simply held."""
        self.data: Any = None
        """What the consumer's `deserializer` made of the record."""

    @property
    def topic(self) -> str:
        """Name of the topic."""
        return self.acquisition.topic

    @property
    def partition(self) -> int:
        """Number of the partition."""
        return self.acquisition.partition

    @property
    def key(self) -> bytes | None:
        """The key as bytes."""
        return self._raw.key

    @property
    def value(self) -> bytes | None:
        """The payload as bytes."""
        return self._raw.value

    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        """Headers in their order; names may repeat."""
        return self._raw.headers

    @property
    def timestamp(self) -> int:
        """Milliseconds since the Unix epoch, set by the producer or by the log."""
        return self._raw.timestamp

    @property
    def delivery_count(self) -> int:
        """The number of this delivery attempt; 1 is the first."""
        return self.acquisition.delivery_count

    @property
    def deadline(self) -> float:
        """When the acquisition lock runs out, in seconds since the Unix epoch."""
        return self.acquisition.deadline

    def accept(self) -> Acknowledgement:
        """Processed: never deliver it again."""
        return self.acquisition.sink.acknowledge(self, AcknowledgeType.ACCEPT)

    def release(self, delay: float | None = None) -> Acknowledgement:
        """Not processed: deliver it again, `delay` seconds from now at the earliest."""
        detail = None if delay is None else round(delay * 1000)
        return self.acquisition.sink.acknowledge(self, AcknowledgeType.RELEASE, detail)

    def reject(self, reason: str = "") -> Acknowledgement:
        """Cannot be processed: never deliver it again; `reason` goes into the leader's log."""
        return self.acquisition.sink.acknowledge(self, AcknowledgeType.REJECT, reason or None)

    def renew(self) -> Acknowledgement:
        """Still being processed: start the acquisition lock anew."""
        return self.acquisition.sink.acknowledge(self, AcknowledgeType.RENEW)

    def __repr__(self) -> str:
        return f"Record({self.topic}-{self.partition}@{self.offset}, delivery {self.delivery_count})"
