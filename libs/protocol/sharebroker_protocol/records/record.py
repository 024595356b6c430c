"""A record as an application receives it, its acquisition (lock), and its acknowledgement."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Generator, Iterator, Sequence
from enum import IntEnum
from math import ceil
from typing import Any, Final, NamedTuple, Protocol

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import LONGEST_LOCK_MS, MAX_REASON, MESSAGE_ID_HEADER, SHORTEST_LOCK_MS
from sharebroker_protocol.outcome import DONE, QUEUED, Outcome

MAX_MESSAGE_ID_BYTES: Final = 128
"""The length of the longest message id."""

DELIVER_AT_HEADER: Final = "sharebroker.deliver.at"
"""The record header with a delivery time in ms since the Unix epoch, as text; see delivery.delay.enable."""


FOR_GROUP_HEADER: Final = "sharebroker.for.group"
"""The header of a copy of a failed record: the share group that receives it.

Only the server's own note hides a record from other groups; a producer's header does not.
"""

RETRY_OF_HEADER: Final = "sharebroker.retry.of"
"""The header of such a copy: the copied record, as topic/partition/offset."""


_MAX_TIME: Final = 1e12


def message_id_header(message_id: str | bytes) -> tuple[str, bytes]:
    """Returns the header of a message id. Raises KafkaError INVALID_RECORD if its length is invalid."""
    value = message_id.encode() if isinstance(message_id, str) else message_id
    if not 1 <= len(value) <= MAX_MESSAGE_ID_BYTES:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"The message id has {len(value)} bytes; 1 to {MAX_MESSAGE_ID_BYTES} are allowed.",
        )
    return MESSAGE_ID_HEADER, value


def deliver_at_header(deliver_at: float | None, deliver_after: float | None, now: float) -> tuple[str, bytes]:
    """Returns the header of a delivery time.

    `deliver_at` and `now` are in seconds since the Unix epoch, `deliver_after` is in seconds from now. Raises
    KafkaError INVALID_RECORD if both are set, or one is negative.
    """
    if deliver_at is not None and deliver_after is not None:
        raise KafkaError(ErrorCode.INVALID_RECORD, "Set deliver_at or deliver_after, not both.")
    time = deliver_at if deliver_at is not None else deliver_after or 0.0
    if not 0 <= time <= _MAX_TIME:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"The delivery time {time} is not in 0 to {_MAX_TIME:g} s."
        )
    return DELIVER_AT_HEADER, str(ceil((time if deliver_at is not None else now + time) * 1000)).encode()


def with_own_headers(
    headers: Sequence[tuple[str, bytes | None]],
    message_id: str | bytes | None,
    deliver_at: float | None,
    deliver_after: float | None,
    clock: Callable[[], float],
) -> Sequence[tuple[str, bytes | None]]:
    """Returns the headers of a record with those of its message id and its delivery time, if it has them.

    `clock` returns seconds since the Unix epoch. Raises KafkaError INVALID_RECORD.
    """
    if message_id is not None:
        headers = (*headers, message_id_header(message_id))
    if deliver_at is not None or deliver_after is not None:
        headers = (*headers, deliver_at_header(deliver_at, deliver_after, clock()))
    return headers


def partitioning_key(key: bytes | None, headers: Sequence[tuple[str, bytes | None]]) -> bytes | None:
    """Returns the bytes that choose the partition of a record: its key, else its message id, else None.

    Message ids are compared within a partition, so a record that is published again must have the same one.
    """
    if key is not None or not headers:
        return key
    return next((value for name, value in headers if name == MESSAGE_ID_HEADER), None)


class AcknowledgeType(IntEnum):
    """How a record is acknowledged, by the numbers of org.apache.kafka.clients.consumer.AcknowledgeType.

    GAP is 0 in Kafka and 5 here, because 0 is the default of an unset protobuf field.
    """

    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4
    GAP = 5


MAX_DELAY: Final = 86_400.0
"""Seconds: the longest delay of a release that a server accepts."""


def check_delay(delay: float | None) -> None:
    """Raises ValueError for a delay (seconds) below 0 or above a day."""
    if delay is not None and not 0 <= delay <= MAX_DELAY:
        raise ValueError(f"A delay must be between 0 and {MAX_DELAY:.0f} seconds, not {delay}.")


# Attribute look-up on an enumeration costs 0.1 µs.
_ACCEPT: Final = AcknowledgeType.ACCEPT
_RELEASE: Final = AcknowledgeType.RELEASE
_REJECT: Final = AcknowledgeType.REJECT
_RENEW: Final = AcknowledgeType.RENEW


class RawRecord(Protocol):
    """A record as the batch decoder returns it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class ReleaseDetail(NamedTuple):
    """The details of a release that has more than a delay; `blameless`: it does not count as a delivery."""

    delay_ms: int | None = None
    blameless: bool = False
    reason: str = ""


Detail = int | str | ReleaseDetail | None
"""The delay of a release or the lock length of a renewal, in ms, or the reason of a reject."""


class AcknowledgementSink(Protocol):
    """Receives acknowledgements."""

    def acknowledge(self, record: Record, kind: AcknowledgeType, detail: Detail = None) -> Acknowledgement:
        """Acknowledges for the application. Raises IllegalStateError if it no longer holds the record."""
        ...

    def queue(self, record: Record, kind: AcknowledgeType, detail: Detail = None) -> Acknowledgement:
        """Acknowledges for the consumer itself."""
        ...

    def queue_range(self, acquisition: AcquiredRecords, first: int, last: int, kind: AcknowledgeType) -> None:
        """Acknowledges all records of a run for the consumer itself."""
        ...


class AcquiredRecords:
    """Offsets of one partition acquired together, with one lock token, one deadline and one delivery count.

    `deadline` is in seconds since the Unix epoch, `since` is the client's loop time of arrival.
    `unacknowledged` counts offsets without a final acknowledgement sent. `lost` lists ranges with a lost
    lock, `renewed` ranges with a later deadline, `settled` ranges that need no lock: their acknowledgement is
    confirmed, or they have no record (last inclusive). `watchers` has functions to call when the lock on an
    offset is lost. The lock of `durable` records may outlive the stream.
    """

    __slots__ = (
        "deadline",
        "delivery_count",
        "durable",
        "first",
        "last",
        "lost",
        "partition",
        "renewed",
        "settled",
        "since",
        "sink",
        "token",
        "topic",
        "topic_id",
        "unacknowledged",
        "watchers",
    )

    def __init__(
        self, topic: tuple[str, str], partition: int, offsets: tuple[int, int], sink: AcknowledgementSink
    ) -> None:
        """`topic` is (id, name); `offsets` is (first, last), last inclusive."""
        self.topic_id, self.topic = topic
        self.partition = partition
        self.first, self.last = offsets
        self.sink = sink
        self.since = 0.0
        self.delivery_count = 1
        self.durable = False
        self.token = 0
        self.deadline = float("inf")
        self.unacknowledged = self.last - self.first + 1
        self.lost: list[tuple[int, int]] = []
        self.renewed: list[tuple[int, int, float]] = []
        self.settled: list[tuple[int, int]] = []
        self.watchers: dict[int, Callable[[], None]] | None = None

    def renew(self, first: int, last: int, deadline: float) -> None:
        """Sets the deadline of the lock on first..last (inclusive)."""
        if first <= self.first and last >= self.last:
            self.deadline = deadline
            self.renewed.clear()
        else:
            self.renewed = [r for r in self.renewed if not first <= r[0] <= r[1] <= last]
            self.renewed.append((first, last, deadline))

    def deadline_of(self, offset: int) -> float:
        """Returns the deadline of the lock on `offset`."""
        return max((d for first, last, d in self.renewed if first <= offset <= last), default=self.deadline)

    def settle(self, first: int, last: int) -> None:
        """Marks first..last (inclusive) as offsets that need no lock."""
        if self.settled and self.settled[-1][1] == first - 1:
            first, _ = self.settled.pop()
        self.settled.append((first, last))

    def lose(self, first: int, last: int) -> list[int]:
        """Marks the lock on first..last (inclusive) as lost and calls the watchers of these offsets.

        Returns the offsets that were held until now and need their lock.
        """
        first, last = max(first, self.first), min(last, self.last)
        offsets = dict.fromkeys(range(first, last + 1))
        for low, high in (*self.lost, *self.settled):
            for offset in range(max(low, first), min(high, last) + 1):
                offsets.pop(offset, None)
        self.lost.append((first, last))
        if self.watchers is not None:
            for offset in [offset for offset in self.watchers if first <= offset <= last]:
                self.watchers.pop(offset)()
        return list(offsets)

    def is_lost(self, offset: int) -> bool:
        """Whether the lock on `offset` is known to be lost."""
        return any(first <= offset <= last for first, last in self.lost)


class Acknowledgement(Outcome):
    """One acknowledgement of one record. Await it, or call `result()` in a thread; both raise its KafkaError.

    INVALID_RECORD_STATE: the member no longer held the record. ConnectionLostError: the acknowledgement may
    or may not have been applied.
    """

    # No reference to the record: thousands of reference cycles per second would burden the garbage collector.
    __slots__ = ("acquisition", "detail", "kind", "offset")

    def __init__(self, record: Record, kind: AcknowledgeType, detail: Detail) -> None:
        # Replaces super().__init__(), which would cost one more call per record.
        self.progress = QUEUED
        self.error = None
        self._waiters = None
        self.acquisition = record.acquisition
        self.offset = record.offset
        self.kind = kind
        self.detail = detail

    @property
    def delay_ms(self) -> int | None:
        """The delay that a release requests; None: it requests none."""
        if self.kind is not _RELEASE:
            return None
        detail = self.detail.delay_ms if isinstance(self.detail, ReleaseDetail) else self.detail
        return detail if isinstance(detail, int) else None

    @property
    def is_confirmed_renewal(self) -> bool:
        """Whether this is a confirmed renewal, so that the record still needs a final acknowledgement."""
        return self.kind is _RENEW and self.done and self.error is None

    @property
    def unconfirmed_offsets(self) -> list[int]:
        """The offsets without a known outcome: the record's own, or none."""
        return [] if self.done else [self.offset]

    def __await__(self) -> Generator[object, None, None]:
        if self.progress is not DONE:
            yield from self.wait()
        if self.error is not None:
            raise self.error

    def result(self, timeout: float | None = None) -> None:
        """Blocks until the outcome is known and raises its error; TimeoutError after `timeout` seconds."""
        self.wait_blocking(timeout)
        self.raise_error()

    def __repr__(self) -> str:
        outcome = self.progress.name if self.error is None else self.error.code.name
        return f"Acknowledgement({self.kind.name}: {outcome})"


class Record:
    """One record, held under an acquisition lock until it is acknowledged.

    `accept`, `release`, `reject` and `renew` return an `Acknowledgement`. Await it (asyncio) or call its
    `result()` (threads) for the confirmed outcome of this record, or ignore it at no cost.
    """

    # The decoder's object is not kept: fewer live objects mean fewer garbage collections.
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

    def __init__(self, raw: RawRecord, acquisition: AcquiredRecords) -> None:
        self.acquisition = acquisition
        self.offset: int = raw.offset
        self.timestamp: int = raw.timestamp
        """Milliseconds since the Unix epoch, set by the producer or by the log (`message.timestamp.type`)."""
        self.key: bytes | None = raw.key
        """The key; None if the record has none."""
        self.value: bytes | None = raw.value
        """The payload; None if the record has none."""
        self._headers = raw.headers or None
        self.acknowledgement: Acknowledgement | None = None
        """The newest acknowledgement of this record; None while the record is held without one."""
        self.data: Any = None
        """The result of the consumer's `deserializer`; None without one."""

    @property
    def topic(self) -> str:
        """The name of the topic."""
        return self.acquisition.topic

    @property
    def partition(self) -> int:
        """The partition number."""
        return self.acquisition.partition

    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        """Headers in order; names may repeat."""
        return self._headers or []

    @property
    def delivery_count(self) -> int:
        """The number of deliveries including this one; 1 on the first."""
        return self.acquisition.delivery_count

    @property
    def deadline(self) -> float:
        """The end of the acquisition lock, in seconds since the Unix epoch by the server's clock."""
        return self.acquisition.deadline_of(self.offset)

    @property
    def lock_lost(self) -> bool:
        """Whether the lock is known to be lost, so that the record is delivered again."""
        return self.acquisition.is_lost(self.offset)

    def accept(self) -> Acknowledgement:
        """Accepts the record: it was processed and is not delivered again."""
        return self.acquisition.sink.acknowledge(self, _ACCEPT)

    def release(
        self, delay: float | None = None, *, blameless: bool = False, reason: str = ""
    ) -> Acknowledgement:
        """Releases the record: it is delivered again, after `delay` seconds at the earliest.

        Without a delay the group's retry backoff applies. With `blameless` this delivery does not count. At
        the delivery limit the record is archived, and `reason` is listed with it.
        Raises ValueError for a delay below 0 or above a day.
        """
        check_delay(delay)
        delay_ms = None if delay is None else round(delay * 1000)
        sent = _sendable(reason)
        detail = ReleaseDetail(delay_ms, blameless, sent) if blameless or sent else delay_ms
        return self.acquisition.sink.acknowledge(self, _RELEASE, detail)

    def reject(self, reason: str = "") -> Acknowledgement:
        """Rejects the record: it is archived and not delivered again.

        The leader logs the first `MAX_REASON` characters of `reason`, and lists the first
        `LONGEST_STORED_REASON` with the record. Characters that are not UTF-8 become "?".
        """
        return self.acquisition.sink.acknowledge(self, _REJECT, _sendable(reason) or None)

    def renew(self, lock: float | None = None) -> Acknowledgement:
        """Renews the acquisition lock while the record is being processed.

        It ends after `lock` seconds from now, else after the length of the consumer's locks (`lock_ms`).
        Raises ValueError for a length below a second or above a day.
        """
        if lock is not None and not SHORTEST_LOCK_MS <= lock * 1000 <= LONGEST_LOCK_MS:
            limits = f"{SHORTEST_LOCK_MS // 1000} and {LONGEST_LOCK_MS // 1000}"
            raise ValueError(f"A lock must last between {limits} seconds, not {lock}.")
        detail = None if lock is None else round(lock * 1000)
        return self.acquisition.sink.acknowledge(self, _RENEW, detail)

    def watch_lock(self, on_lost: Callable[[], None] | None) -> None:
        """Sets the function that is called once, in the client's event loop, if the lock is lost.

        None removes it. It is called immediately if the lock is already lost.
        """
        acquisition = self.acquisition
        if acquisition.watchers is None:
            acquisition.watchers = {}
        if on_lost is None:
            acquisition.watchers.pop(self.offset, None)
        elif self.lock_lost:
            on_lost()
        else:
            acquisition.watchers[self.offset] = on_lost

    def __repr__(self) -> str:
        return f"Record({self.topic}-{self.partition}@{self.offset}, delivery {self.delivery_count})"


def spans(records: Sequence[Record]) -> Iterator[tuple[AcquiredRecords, int, int]]:
    """Yields runs of consecutive offsets of one acquisition as (acquisition, first, last).

    Records of an acquisition are adjacent and ascending, so a binary search finds the end of each run.
    """
    start = 0
    while start < len(records):
        first = records[start]
        end = _end_of_run(records, start)
        yield first.acquisition, first.offset, first.offset + end - start - 1
        start = end


def _end_of_run(records: Sequence[Record], start: int) -> int:
    """Returns the index after the run that begins at `start`."""
    first = records[start]
    acquisition, base = first.acquisition, first.offset - start

    def is_behind(index: int) -> bool:
        record = records[index]
        return record.acquisition is not acquisition or record.offset != base + index

    limit = min(len(records), start + 1 + acquisition.last - first.offset)
    return bisect_left(range(limit), True, start + 1, key=is_behind)


def _sendable(reason: str) -> str:
    return reason[:MAX_REASON].encode(errors="replace").decode()
