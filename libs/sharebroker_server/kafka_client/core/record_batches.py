"""Whole record batches in the bytes of a fetch response."""

from __future__ import annotations

from struct import Struct
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError

_START: Final = Struct(">qi")
"""Base offset, and the number of the bytes that follow it."""

_SMALLEST: Final = 14
"""Bytes after the length in the smallest record of any message format."""


def whole_batches(records: bytes) -> int:
    """Returns the number of bytes that whole batches have at the start of `records`.

    A broker cuts the last batch off where its limit is.

    Raises:
        KafkaError: CORRUPT_MESSAGE for an impossible length.
    """
    end = position = 0
    while position + _START.size <= len(records):
        _, length = _START.unpack_from(records, position)
        if length < _SMALLEST:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE, f"The batch at byte {position} has a length of {length}."
            )
        position += _START.size + length
        if position <= len(records):
            end = position
    return end
