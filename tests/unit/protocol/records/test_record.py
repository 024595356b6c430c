"""Headers that a producer adds to a record."""

from __future__ import annotations

import math

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import MESSAGE_ID_HEADER
from sharebroker_protocol.records.record import DELIVER_AT_HEADER, with_own_headers

OTHER = ("other", b"1")


@pytest.mark.parametrize(
    ("message_id", "deliver_at", "deliver_after", "added"),
    [
        (None, None, None, []),
        ("a", None, None, [(MESSAGE_ID_HEADER, b"a")]),
        (b"a", None, 2.5, [(MESSAGE_ID_HEADER, b"a"), (DELIVER_AT_HEADER, b"102500")]),
        (None, 7.0001, None, [(DELIVER_AT_HEADER, b"7001")]),
        (None, 0.0, None, [(DELIVER_AT_HEADER, b"0")]),
    ],
)
def test_message_id_and_delivery_time_are_headers(
    message_id: str | bytes | None,
    deliver_at: float | None,
    deliver_after: float | None,
    added: list[tuple[str, bytes]],
) -> None:
    found = with_own_headers((OTHER,), message_id, deliver_at, deliver_after, lambda: 100.0)
    assert [*found] == [OTHER, *added]


@pytest.mark.parametrize(
    ("message_id", "deliver_at", "deliver_after"),
    [
        ("", None, None),
        (b"x" * 129, None, None),
        (None, 1.0, 1.0),
        (None, -1.0, None),
        (None, None, -1.0),
        (None, math.nan, None),
        (None, None, math.inf),
        (None, 1e300, None),
    ],
)
def test_invalid_values_are_rejected(
    message_id: str | bytes | None, deliver_at: float | None, deliver_after: float | None
) -> None:
    with pytest.raises(KafkaError) as caught:
        with_own_headers((), message_id, deliver_at, deliver_after, lambda: 100.0)
    assert caught.value.code is ErrorCode.INVALID_RECORD
