"""The settings of a log, and the validation of records before they are appended (Kafka: LogValidator).

A consumer that cannot read a batch cannot get past it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final

from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatch

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.record_log.core import record_scan
from sharebroker_server.record_log.core.batch import (
    HEADER_SIZE,
    SMALLEST_RECORD,
    BatchHeader,
    Buffer,
    StoredBatch,
    header_of,
    parse_headers,
    seal,
)
from sharebroker_server.record_log.core.log_state import MemoryLimits
from sharebroker_server.record_log.core.retention import Retention
from sharebroker_server.record_log.core.schedules import DeliveryLimits
from sharebroker_server.record_log.record_headers import RecordHeaders, has_ids, message_id, offset_of
from sharebroker_server.record_log.unpacking import unpack

if TYPE_CHECKING:
    from sharebroker_server.config.topic import TopicConfig

_NO_TIMESTAMP: Final = -1
_UNLIMITED: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class TimestampBounds:
    """message.timestamp.before.max.ms and message.timestamp.after.max.ms."""

    before_max_ms: int = _UNLIMITED
    after_max_ms: int = 3_600_000

    def check(self, headers: Iterable[BatchHeader], now_ms: int) -> None:
        """Raises INVALID_TIMESTAMP if a timestamp is out of bounds.

        Batches are not unpacked: only the first and the newest timestamp of each are checked.
        """
        for header in headers:
            for time in (header.base_timestamp, header.max_timestamp):
                if time != _NO_TIMESTAMP and not -self.before_max_ms <= time - now_ms <= self.after_max_ms:
                    raise KafkaError(
                        ErrorCode.INVALID_TIMESTAMP,
                        f"The timestamp {time} is out of bounds: it may be at most {self.before_max_ms} "
                        "ms before "
                        f"and {self.after_max_ms} ms after the current time {now_ms}.",
                    )


@dataclass(frozen=True, slots=True)
class LogSettings:
    """A topic's configuration as far as it concerns the log, and the limits of this process.

    `log_append_time` is message.timestamp.type=LogAppendTime. `dedup_window_ms` is message.dedup.window.ms,
    0 for none. `delivery` limits delivery times; None: the topic ignores them. `max_pending_bytes` limits the
    append queue, `max_group_bytes` one write to the store. `state_lag_bytes` is share.state.log.bytes.
    """

    max_message_bytes: int = 1_048_588
    log_append_time: bool = False
    timestamp_bounds: TimestampBounds = field(default_factory=TimestampBounds)
    retention: Retention = field(default_factory=Retention)
    dedup_window_ms: int = 0
    delivery: DeliveryLimits | None = None
    limits: MemoryLimits = field(default_factory=MemoryLimits)
    max_pending_bytes: int = 32 << 20
    max_group_bytes: int = 4 << 20
    state_lag_bytes: int = 64 << 20

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
                topic.retention_ms,
                topic.retention_bytes,
                consumed=topic.retention_policy == "consumed",
                keep_ms=topic.message_dedup_window_ms,
            ),
            dedup_window_ms=topic.message_dedup_window_ms,
            delivery=delivery_limits(topic),
            state_lag_bytes=topic.share_state_log_bytes,
        )

    def record_headers(self) -> RecordHeaders | None:
        """Returns what has to be read from the headers of records; None: nothing."""
        if self.dedup_window_ms or self.delivery is not None:
            return RecordHeaders(ids=self.dedup_window_ms > 0, times=self.delivery is not None)
        return None

    def headers(self, data: Buffer, now_ms: int, values: RecordHeaders | None = None) -> list[BatchHeader]:
        """Returns the headers of a produce request's batches, after validating their records.

        Adds what the headers of the records have to `values`.
        The work is not cut into slices; `ValidationQueue` validates large batches.

        Raises:
            KafkaError: as `parse_headers`, `check_counts`, `check_records` and `check_times`.
        """
        headers = parse_headers(data, self.max_message_bytes)
        check_counts(headers)
        for header, batch in batches_of(data, headers):
            check_records(header, batch, values=values)
        self.check_times(headers, now_ms, values)
        return headers

    def check_times(
        self, headers: Iterable[BatchHeader], now_ms: int, values: RecordHeaders | None = None
    ) -> None:
        """Raises INVALID_TIMESTAMP if a timestamp counts and is out of bounds, or a delivery time is."""
        if not self.log_append_time:
            self.timestamp_bounds.check(headers, now_ms)
        if self.delivery is not None and values is not None and values.times:
            self.delivery.check(max(values.times), now_ms)


def delivery_limits(topic: TopicConfig) -> DeliveryLimits | None:
    """Returns the limits of delivery times; None if the topic ignores them."""
    if not topic.delivery_delay_enable:
        return None
    return DeliveryLimits(topic.delivery_delay_max_ms, topic.retention_ms)


MAX_UNPACKED_BYTES: Final = 16 << 20
"""The largest unpacked size of a compressed batch in bytes, which bounds the memory for its validation."""

MAX_RECORDS: Final = 250_000
"""The largest number of records in the batches of one append, which bounds the time of their validation.

Java's producer splits a batch that is rejected with this error, and continues.
"""

MAX_BATCHES: Final = 10_000
"""The largest number of batches in one append: as many as one Publish has records."""

MAX_HEADERS: Final = 100_000
"""The largest number of headers of a large record; they are read in one step."""

UNREADABLE: Final = (CorruptRecordException, IndexError, ValueError)
"""What the decoder of records raises for a batch that it cannot read."""

SLICE_RECORDS: Final = 4_000
"""The number of records in a slice."""

_BATCH_COST: Final = 20
"""The number of records that take as long as what is done once for a batch."""

_SLICE_BYTES: Final = 32 << 10
"""The bytes in a slice of a large batch."""

_LARGE_BATCH: Final = 1 << 20
"""The unpacked bytes from which on slices are measured in bytes, since records may have many headers."""

_LARGE_RECORD: Final = 128 << 10
"""The bytes of a record from which on its headers are counted before they are read."""

_SCANNED_RECORDS: Final = 10 * SLICE_RECORDS
"""The most records that the compiled scan reads in one step, about a millisecond."""

_SCANS: Final = not record_scan.__file__.endswith(".py")
"""Whether the scan is compiled. As source it is slower than the decoder."""

_CODEC_MASK: Final = 0x07


def batches_of(data: Buffer, headers: Sequence[BatchHeader]) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yields the header and the bytes of each batch; `headers` is the result of `parse_headers`."""
    view, position = memoryview(data), 0
    for header in headers:
        end = position + header.size
        yield header, view[position:end]
        position = end


def validation_groups(
    data: Buffer, headers: Sequence[BatchHeader]
) -> Iterator[list[tuple[BatchHeader, memoryview]]]:
    """Yields the batches in groups, each of which is a portion of work like one batch.

    A compressed batch is a group of its own. Others are grouped up to the cost of a slice.
    """
    group: list[tuple[BatchHeader, memoryview]] = []
    cost = size = 0
    for header, batch in batches_of(data, headers):
        batch_cost = header.record_count + _BATCH_COST
        cost += batch_cost
        size += header.size
        if group and (header.codec or group[0][0].codec or cost > SLICE_RECORDS or size > _LARGE_BATCH):
            yield group
            group, cost, size = [], batch_cost, header.size
        group.append((header, batch))
    if group:
        yield group


def check_counts(headers: Sequence[BatchHeader]) -> None:
    """Raises MESSAGE_TOO_LARGE for more than MAX_RECORDS records or MAX_BATCHES batches in one append."""
    if len(headers) > MAX_BATCHES:
        raise _too_large(f"The request has more than {MAX_BATCHES} batches for a partition.")
    if sum(header.record_count for header in headers) > MAX_RECORDS:
        raise _too_large(f"The request has more than {MAX_RECORDS} records for a partition.")


def check_records(
    header: BatchHeader,
    batch: Buffer,
    max_bytes: int = MAX_UNPACKED_BYTES,
    values: RecordHeaders | None = None,
) -> int:
    """Reads each record of a batch whose header was checked; returns the unpacked size in bytes.

    Adds what the headers of the records have to `values`.

    Raises:
        UnpacksTooLargeError: the batch unpacks to more than `max_bytes`.
        KafkaError: as `plain_batch` and `record_slices`.
    """
    plain = plain_batch(header, batch, max_bytes)
    for _ in record_slices(header, plain, values):
        pass
    return len(plain)


def plain_batch(header: BatchHeader, batch: Buffer, max_bytes: int = MAX_UNPACKED_BYTES) -> Buffer:
    """Returns the batch without compression; its record count fits its size.

    Raises:
        UnpacksTooLargeError: the batch unpacks to more than `max_bytes`.
        KafkaError: INVALID_RECORD if it cannot be unpacked, or is too small for its records.
    """
    if not header.codec:
        return batch
    records = unpack(header.codec, memoryview(batch)[HEADER_SIZE:], max_bytes)
    if header.record_count * SMALLEST_RECORD > len(records):
        raise _mismatch()
    return seal(header._replace(attributes=header.attributes & ~_CODEC_MASK), records)


def record_slices(header: BatchHeader, plain: Buffer, values: RecordHeaders | None = None) -> Iterator[None]:
    """Reads the records of a batch that `plain_batch` returned; yields after each slice.

    A slice takes a few milliseconds at most. The batch has to start at offset 0. Adds what the headers of
    the records have to `values`.

    Raises:
        KafkaError: INVALID_RECORD if a record is unreadable, does not match the header, or has an invalid
            message id or delivery time; MESSAGE_TOO_LARGE if a large record has more than MAX_HEADERS
            headers.
    """
    read_one = offset_of if values is None else values.reader(header.record_count, plain)
    if read_one is offset_of and _SCANS and _is_scanned(header, plain):
        return
    try:
        found, read = map(read_one, DefaultRecordBatch(plain)), 0
        for size in _slice_sizes(header, plain):
            offsets = list(islice(found, size))
            if offsets != list(range(read, read + len(offsets))):
                raise _mismatch()
            read += len(offsets)
            yield
        if read != header.record_count or next(found, None) is not None:
            raise _mismatch()
    except (CorruptRecordException, UnicodeDecodeError, IndexError) as error:
        raise KafkaError(ErrorCode.INVALID_RECORD, "The batch contains unreadable records.") from error


def _is_scanned(header: BatchHeader, plain: Buffer) -> bool:
    """Returns whether the scan accepts the records; the decoder decides about all others."""
    if len(plain) > _LARGE_BATCH or header.record_count > _SCANNED_RECORDS:
        return False
    return record_scan.has_consecutive_records(bytes(plain), HEADER_SIZE, header.record_count)


def stored_ids(batch: StoredBatch) -> Generator[None, None, Sequence[int | None]]:
    """Returns the message ids of a stored batch; yields after each slice of its records.

    An invalid id, which was appended without a window, is None.
    """
    try:
        header = header_of(batch.data)
        plain = plain_batch(header, batch.data)
        if not has_ids(plain):
            return ()
        ids, records = list[int | None](), iter(DefaultRecordBatch(plain))
        for size in _slice_sizes(header, plain):
            ids += map(message_id, islice(records, size))
            yield
        return ids
    except (KafkaError, CorruptRecordException, UnicodeDecodeError, IndexError):
        return ()


def _slice_sizes(header: BatchHeader, plain: Buffer) -> Iterator[int]:
    """Yields the number of records of each slice."""
    if len(plain) <= _LARGE_BATCH:
        for first in range(0, header.record_count, SLICE_RECORDS):
            yield min(SLICE_RECORDS, header.record_count - first)
        return
    position = begin = HEADER_SIZE
    count = 0
    while position < len(plain):
        size, position = _varint(plain, position)
        if size > _LARGE_RECORD:
            _check_header_count(plain, position)
        if size < 0:
            raise IndexError(position)
        position += size
        count += 1
        if position - begin >= _SLICE_BYTES:
            yield count
            begin, count = position, 0
    yield count


def _check_header_count(plain: Buffer, position: int) -> None:
    """Reads a record up to the number of its headers."""
    position += 1  # attributes
    for _ in ("timestamp delta", "offset delta"):
        _, position = _varint(plain, position)
    for _ in ("key", "value"):
        size, position = _varint(plain, position)
        position += max(size, 0)
    headers, _ = _varint(plain, position)
    if headers > MAX_HEADERS:
        raise _too_large(f"A record has more than {MAX_HEADERS} headers.")


def _varint(data: Buffer, position: int) -> tuple[int, int]:
    """Returns a zigzag number and the position after it. Raises IndexError at the end of the data."""
    byte = data[position]
    number, shift = byte & 0x7F, 7
    while byte > 0x7F:
        position += 1
        byte = data[position]
        number |= (byte & 0x7F) << shift
        shift += 7
    return (number >> 1) ^ -(number & 1), position + 1


def _mismatch() -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, "The records of the batch do not match its header.")


def _too_large(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.MESSAGE_TOO_LARGE, reason)
