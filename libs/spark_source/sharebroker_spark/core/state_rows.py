"""The log of a share-partition's state as rows: one row per run of offsets in a record."""

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
    ("not_before", "timestamp"),
)
"""Column names with their Spark types."""


class StateRowKey(NamedTuple):
    """A partition of a topic as a share group reads it."""

    group: str
    topic: str
    topic_id: str
    partition: int


class StoredRecord(Protocol):
    """A record of the InspectShareGroupState response (protos/sharebroker/share_coordinator/v1)."""

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
        """State batches with first_offset, last_offset, delivery_state, delivery_count and note."""


Row = tuple[Any, ...]
"""One value per column; times are microseconds since the Unix epoch."""


def rows(
    share_partition: StateRowKey, records: Iterable[StoredRecord], answer: StoredRecord | None
) -> Iterator[Row]:
    """Yields the log's records by position, then the coordinator's state in memory (None: no state)."""
    for record in records:
        yield from _rows(share_partition, record, record.kind)
    if answer is not None:
        yield from _rows(share_partition, answer, ANSWER)


def unreadable(share_partition: StateRowKey) -> Row:
    """Returns the row of a share-partition whose log cannot be read."""
    head = (share_partition.group, share_partition.topic, share_partition.partition, None, UNREADABLE)
    return (*head, *[None] * (len(COLUMNS) - len(head)))


def _rows(share_partition: StateRowKey, record: StoredRecord, kind: str) -> Iterator[Row]:
    whole = kind in (CHECKPOINT, ANSWER)
    has_state = whole or kind == DELTA
    head = (
        share_partition.group,
        share_partition.topic,
        share_partition.partition,
        record.position,
        kind,
        record.checkpoint_epoch if has_state else None,
        record.delta_index if kind == DELTA else None,
        record.state_epoch if whole else None,
        _changed(record.leader_epoch, whole=whole, has_state=has_state),
        _changed(record.start_offset, whole=whole, has_state=has_state),
        record.delivery_complete_count if has_state else None,
    )
    written = (record.write_timestamp_ms * 1000 or None,)
    for batch in record.state_batches:
        run = (batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
        yield (*head, *run, *written, batch.note.not_before_ms * 1000 or None)
    if not record.state_batches:
        yield (*head, None, None, None, None, *written, None)


def _changed(value: int, *, whole: bool, has_state: bool) -> int | None:
    """Returns None for an unchanged value, which a delta contains as -1."""
    return value if whole or (has_state and value != _NOT_CHANGED) else None
