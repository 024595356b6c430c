"""The log of a share-partition's state as rows: one for each run of offsets that a record tells of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple, Protocol

CHECKPOINT: Final = "checkpoint"
DELTA: Final = "delta"
ANSWER: Final = "answer"
UNREADABLE: Final = "unreadable"
_NOT_CHANGED: Final = -1

COLUMNS: Final = (
    ("group", "string"),
    ("topic", "string"),
    ("partition", "int"),
    ("position", "bigint"),
    ("kind", "string"),
    ("checkpoint_epoch", "int"),
    ("delta_index", "int"),
    ("state_epoch", "int"),
    ("leader_epoch", "int"),
    ("start_offset", "bigint"),
    ("delivery_complete_count", "int"),
    ("first_offset", "bigint"),
    ("last_offset", "bigint"),
    ("delivery_state", "int"),
    ("delivery_count", "int"),
    ("written_at", "timestamp"),
)
"""Names and Spark's types."""


class SharePartition(NamedTuple):
    """A partition of a topic, as a group works it off."""

    group: str
    topic: str
    topic_id: str
    partition: int


class StoredRecord(Protocol):
    """A record as InspectShareGroupState gives it (protos/sharebroker/share_coordinator/v1)."""

    position: int
    kind: str
    checkpoint_epoch: int
    delta_index: int
    start_offset: int
    state_epoch: int
    leader_epoch: int
    delivery_complete_count: int
    write_timestamp_ms: int

    @property
    def state_batches(self) -> Any:
        """Runs of offsets: first_offset, last_offset, delivery_state, delivery_count."""


Row = tuple[Any, ...]
"""A value a column; times in microseconds since the Unix epoch."""


def rows(
    place: SharePartition, records: Iterable[StoredRecord], answer: StoredRecord | None
) -> Iterator[Row]:
    """The log's records by position, then what the coordinator answers from (None: it has no state)."""
    for record in records:
        yield from _rows(place, record, record.kind)
    if answer is not None:
        yield from _rows(place, answer, ANSWER)


def unreadable(place: SharePartition) -> Row:
    """The row of a share-partition whose log cannot be read."""
    head = (place.group, place.topic, place.partition, None, UNREADABLE)
    return (*head, *[None] * (len(COLUMNS) - len(head)))


def _rows(place: SharePartition, record: StoredRecord, kind: str) -> Iterator[Row]:
    whole = kind in (CHECKPOINT, ANSWER)
    said = whole or kind == DELTA
    head = (
        place.group,
        place.topic,
        place.partition,
        record.position,
        kind,
        record.checkpoint_epoch if said else None,
        record.delta_index if kind == DELTA else None,
        record.state_epoch if whole else None,
        _changed(record.leader_epoch, whole=whole, said=said),
        _changed(record.start_offset, whole=whole, said=said),
        record.delivery_complete_count if said else None,
    )
    written = (record.write_timestamp_ms * 1000 or None,)
    for batch in record.state_batches:
        run = (batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
        yield (*head, *run, *written)
    if not record.state_batches:
        yield (*head, None, None, None, None, *written)


def _changed(value: int, *, whole: bool, said: bool) -> int | None:
    """A delta says -1 of what stays as it is."""
    return value if whole or (said and value != _NOT_CHANGED) else None
