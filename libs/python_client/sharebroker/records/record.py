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
        """The application's word. IllegalStateError when it has no say (any more)."""
        ...

    def decide(
        self, record: Record, kind: AcknowledgeType, detail: int | str | None = None
    ) -> Acknowledgement:
        """The consumer's own word."""
        ...


class Acquisition:
    """A run of offsets of one partition, acquired together: one lock token, one deadline, one delivery count.

    `deadline` is in seconds since the Unix epoch. `undecided` counts offsets without a final word sent,
    `lost` lists ranges whose lock is known to be gone, `renewed` those with a later deadline (last
    inclusive).
    """

    __slots__ = (
        "deadline",
        "delivery_count",
        "first",
        "last",
        "lost",
        "partition",
        "renewed",
        "sink",
        "token",
        "topic",
        "topic_id",
        "undecided",
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
        self.undecided = self.last - self.first + 1
        self.lost: list[tuple[int, int]] = []
        self.renewed: list[tuple[int, int, float]] = []

    def renew(self, first: int, last: int, deadline: float) -> None:
        """The lock of first..last (inclusive) now ends at `deadline`."""
        if first <= self.first and last >= self.last:
            self.deadline = deadline
            self.renewed.clear()
        else:
            self.renewed = [r for r in self.renewed if not first <= r[0] <= r[1] <= last]
            self.renewed.append((first, last, deadline))

    def deadline_of(self, offset: int) -> float:
        """When the lock of `offset` ends."""
        return max((d for first, last, d in self.renewed if first <= offset <= last), default=self.deadline)

    def is_lost(self, offset: int) -> bool:
        """Whether the lock of `offset` is known to be gone."""
        return any(first <= offset <= last for first, last in self.lost)


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
        """When the acquisition lock runs out, in seconds since the Unix epoch by the server's clock."""
        return self.acquisition.deadline_of(self.offset)

    @property
    def lock_lost(self) -> bool:
        """Whether the lock is known to be gone: the record is or will be delivered again."""
        return self.acquisition.is_lost(self.offset)

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
