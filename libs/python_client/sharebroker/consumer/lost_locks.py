"""Which lost locks are reported to the application, and how they are logged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from sharebroker.consumer.config import LockLost
from sharebroker_protocol.records.record import AcquiredRecords, Record

_MOST_NAMED: Final = 3


def received(
    lost: Iterable[tuple[AcquiredRecords, Iterable[int]]], waiting: Iterable[Record], reason: str
) -> list[LockLost]:
    """Returns the lost records that the application received: all except those in `waiting`."""
    unseen = {(record.acquisition, record.offset) for record in waiting if record.acquisition.lost}
    return [
        LockLost(acquired.topic, acquired.partition, offset, acquired.delivery_count, reason)
        for acquired, offsets in lost
        for offset in offsets
        if (acquired, offset) not in unseen
    ]


def describe(lost: Sequence[LockLost]) -> str:
    """Returns a line for the log that names the first three of at least one record."""
    names = ", ".join(
        f"{one.topic}-{one.partition}@{one.offset} (delivery {one.delivery_count})"
        for one in lost[:_MOST_NAMED]
    )
    if len(lost) == 1:
        return f"The lock on {names} was lost: {lost[0].reason}. Another member may receive the record."
    more = f" and {len(lost) - _MOST_NAMED} more" if len(lost) > _MOST_NAMED else ""
    return (
        f"The locks on {len(lost)} records were lost: {lost[0].reason}. "
        f"Other members may receive them: {names}{more}."
    )
