"""Checks the records of a batch without creating an object for each record.

It is worth its lines only when it is compiled: as Python source it is slower than aiokafka's decoder, which
`record_validation` then uses. `i64` is a native integer of mypyc; to Python it is an annotation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mypy_extensions import i64

_MAX_VARINT_BITS: Final = 35


def has_consecutive_records(data: bytes, start: int, count: int) -> bool:
    """Returns whether the bytes from `start` on are `count` readable records with offsets 0, 1, 2, ….

    False is no verdict: rare forms are not read, such as header names beyond ASCII.
    """
    end: i64 = len(data)
    at: i64 = start
    records: i64 = count
    offset: i64 = 0
    while offset < records:
        size, at = _signed(data, at, end)
        record_end: i64 = at + size
        if at < 0 or size < 0 or record_end > end:
            return False
        at = _after_offset(data, at, record_end, offset)
        at = _after_bytes(data, at, record_end)  # the key
        at = _after_bytes(data, at, record_end)  # the value
        at = _after_headers(data, at, record_end)
        if at != record_end:
            return False
        offset += 1
    return at == end


def _after_offset(data: bytes, at: i64, end: i64, offset: i64) -> i64:
    """Returns the index after attributes, timestamp delta and offset delta; -1 if it is another offset."""
    if at >= end or data[at] > 0x7F:
        return -1
    _, at = _signed(data, at + 1, end)
    if at < 0:
        return -1
    found, at = _signed(data, at, end)
    return at if found == offset else -1


def _after_headers(data: bytes, at: i64, end: i64) -> i64:
    """Returns the index after the headers of a record; -1 if one is not readable here."""
    if at < 0:
        return -1
    count, at = _signed(data, at, end)
    if count < 0:
        return -1
    while count > 0 and at >= 0:
        name_size, at = _signed(data, at, end)
        if at < 0 or name_size < 0 or name_size > end - at:
            return -1
        name_end: i64 = at + name_size
        while at < name_end:
            if data[at] > 0x7F:  # UTF-8 beyond ASCII
                return -1
            at += 1
        at = _after_bytes(data, at, end)
        count -= 1
    return at


def _after_bytes(data: bytes, at: i64, end: i64) -> i64:
    """Returns the index after bytes with their length, or after null; -1 if there are not as many."""
    if at < 0:
        return -1
    size, at = _signed(data, at, end)
    if at < 0 or size > end - at:
        return -1
    return at + size if size > 0 else at


def _signed(data: bytes, at: i64, end: i64) -> tuple[i64, i64]:
    """Returns a zigzag number of at most five bytes and the index after it; index -1 if there is none."""
    number: i64 = 0
    shift: i64 = 0
    while at < end and shift < _MAX_VARINT_BITS:
        byte: i64 = data[at]
        number |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
        shift += 7
    return 0, -1
