"""A record as the application sees it, and the acquisition under which it holds it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from sharebroker_protocol.records.acknowledgement import Acknowledgement


class AcknowledgeType(IntEnum):
    """What is said of a record. Kafka's numbers (org.apache.kafka.clients.consumer.AcknowledgeType) but GAP,
    which is 0 there: over gRPC that is what a field has that nobody set.
    """

    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4
    GAP = 5


# Looking a member up in its enumeration costs a tenth of a microsecond.
_ACCEPT: Final = AcknowledgeType.ACCEPT
_RELEASE: Final = AcknowledgeType.RELEASE
_REJECT: Final = AcknowledgeType.REJECT
_RENEW: Final = AcknowledgeType.RENEW


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

    def decide_run(self, acquisition: Acquisition, first: int, last: int, kind: AcknowledgeType) -> None:
        """The consumer's own word on all records of a run."""
        ...


class Acquisition:
    """A run of offsets of one partition, acquired together: one lock token, one deadline, one delivery count.

    `deadline` is in seconds since the Unix epoch, `since` is the client's loop time when it came. `undecided`
    counts offsets without a final word sent, `lost` lists ranges whose lock is known to be gone, `renewed`
    those with a later deadline (last inclusive).
    """

    __slots__ = (
        "deadline",
        "delivery_count",
        "first",
        "last",
        "lost",
        "partition",
        "renewed",
        "since",
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
        self.since = 0.0
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

    # What the decoder gave is not kept: fewer objects are alive, so the garbage collector comes less often.
    __slots__ = (
        "_headers",
        "acknowledgement",
        "acquisition",
        "data",
        "key",
        "offset",
        "timestamp",
        "value",
    )

    def __init__(self, raw: RawRecord, acquisition: Acquisition) -> None:
        self.acquisition = acquisition
        self.offset: int = raw.offset
        self.timestamp: int = raw.timestamp
        """Milliseconds since the Unix epoch, set by the producer or by the log."""
        self.key: bytes | None = raw.key
        """The key as bytes."""
        self.value: bytes | None = raw.value
        """The payload as bytes."""
        self._headers = raw.headers or None
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
    def headers(self) -> list[tuple[str, bytes | None]]:
        """Headers in their order; names may repeat."""
        return self._headers or []

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
        return self.acquisition.sink.acknowledge(self, _ACCEPT)

    def release(self, delay: float | None = None) -> Acknowledgement:
        """Not processed: deliver it again, `delay` seconds from now at the earliest."""
        detail = None if delay is None else round(delay * 1000)
        return self.acquisition.sink.acknowledge(self, _RELEASE, detail)

    def reject(self, reason: str = "") -> Acknowledgement:
        """Cannot be processed: never deliver it again; `reason` goes into the leader's log."""
        return self.acquisition.sink.acknowledge(self, _REJECT, reason or None)

    def renew(self) -> Acknowledgement:
        """Still being processed: start the acquisition lock anew."""
        return self.acquisition.sink.acknowledge(self, _RENEW)

    def __repr__(self) -> str:
        return f"Record({self.topic}-{self.partition}@{self.offset}, delivery {self.delivery_count})"


def spans(records: Sequence[Record]) -> Iterator[tuple[Acquisition, int, int]]:
    """Runs of consecutive offsets of one acquisition: it, first and last.

    Records of an acquisition lie together, ascending; so a run is found without a look at each of them.
    """
    start = 0
    while start < len(records):
        first = records[start]
        end = _end_of_run(records, start)
        yield first.acquisition, first.offset, first.offset + end - start - 1
        start = end


def _end_of_run(records: Sequence[Record], start: int) -> int:
    """The index behind the run that begins at `start`."""
    first = records[start]
    acquisition, base = first.acquisition, first.offset - start

    def is_behind(index: int) -> bool:
        record = records[index]
        return record.acquisition is not acquisition or record.offset != base + index

    most = min(len(records), start + 1 + acquisition.last - first.offset)
    return bisect_left(range(most), True, start + 1, key=is_behind)
