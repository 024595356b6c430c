"""Reads from the headers of records what the log has to act on: message ids and delivery times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import MESSAGE_ID_HEADER
from sharebroker_protocol.records.record import DELIVER_AT_HEADER, MAX_MESSAGE_ID_BYTES
from sharebroker_server.record_log.core.batch import Buffer

_MESSAGE_ID: Final = MESSAGE_ID_HEADER.encode()
_DELIVER_AT: Final = DELIVER_AT_HEADER.encode()
_MAX_DIGITS: Final = 16

offset_of: Final[Callable[[Any], int]] = attrgetter("offset")
"""Returns the offset of a record, without reading its headers."""


class RecordHeaders:
    """The values of an append's records, in order.

    `ids` has the hash of each record's message id, None for a record without; `times` has the delivery time
    in ms since the Unix epoch, 0 for a record without. Both are None if the topic does not use them.
    """

    __slots__ = ("ids", "times")

    def __init__(self, *, ids: bool = False, times: bool = False) -> None:
        self.ids: list[int | None] | None = [] if ids else None
        self.times: list[int] | None = [] if times else None

    def used_ids(self) -> Sequence[int | None]:
        """Returns the message ids; [] if no record has one."""
        ids = self.ids or ()
        return ids if any(each is not None for each in ids) else ()

    def used_times(self) -> Sequence[int]:
        """Returns the delivery times; [] if no record has one."""
        return self.times if self.times and any(self.times) else ()

    def clear(self) -> None:
        """Forgets what was read."""
        for values in (self.ids, self.times):
            if values:
                values.clear()

    def reader(self, record_count: int, plain: Buffer) -> Callable[[Any], int]:
        """Returns a function that adds the values of a record and returns its offset.

        `plain` is the batch without compression. The function raises KafkaError INVALID_RECORD.
        """
        data = bytes(plain)
        # A search is faster than reading the headers of all records.
        has_ids = self.ids is not None and _MESSAGE_ID in data
        has_times = self.times is not None and _DELIVER_AT in data
        if self.ids is not None and not has_ids:
            self.ids += [None] * record_count
        if self.times is not None and not has_times:
            self.times += [0] * record_count
        if not (has_ids or has_times):
            return offset_of

        def read(record: Any) -> int:
            if has_ids and self.ids is not None:
                self.ids.append(_valid_id(record))
            if has_times and self.times is not None:
                self.times.append(delivery_time(record))
            return offset_of(record)

        return read


def has_ids(plain: Buffer) -> bool:
    """Returns whether a record of a batch without compression may have a message id."""
    return _MESSAGE_ID in bytes(plain)


def message_id(record: Any) -> int | None:
    """Returns the hash of a record's message id; None without one, or if it is invalid."""
    value = _last(record, MESSAGE_ID_HEADER)
    return hash(value) if value and len(value) <= MAX_MESSAGE_ID_BYTES else None


def _valid_id(record: Any) -> int | None:
    value = _last(record, MESSAGE_ID_HEADER)
    if value is None or 1 <= len(value) <= MAX_MESSAGE_ID_BYTES:
        return None if value is None else hash(value)
    raise KafkaError(
        ErrorCode.INVALID_RECORD,
        f"The message id of record {record.offset} has {len(value)} bytes; 1 to {MAX_MESSAGE_ID_BYTES} are "
        "allowed.",
    )


def delivery_time(record: Any) -> int:
    """Returns the delivery time of a record in ms, 0 without one. Raises KafkaError INVALID_RECORD."""
    value = _last(record, DELIVER_AT_HEADER)
    if value is None:
        return 0
    if not (value.isdigit() and len(value) <= _MAX_DIGITS):
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"The header {DELIVER_AT_HEADER} of record {record.offset} is not a time in milliseconds since "
            f"the Unix epoch, as text of 1 to {_MAX_DIGITS} digits.",
        )
    return int(value)


def _last(record: Any, name: str) -> bytes | None:
    """Returns the value of the last header with a name, b"" if it has no value; None without one."""
    for key, value in reversed(record.headers):
        if key == name:
            return value or b""
    return None
