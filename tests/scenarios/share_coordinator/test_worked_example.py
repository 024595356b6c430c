"""The worked example of seeds 000 and 004: every row with its request, its record and the replayed state."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from sharebroker_protocol.model import StateBatch
from sharebroker_server.share_coordinator.core.commands import Initialize, ReadReply, Write
from sharebroker_server.share_coordinator.core.state import ShareCheckpoint, ShareDelta, ShareRecord
from tests.unit.share_coordinator.harness import KEY, NOW, Shard, read

A, K = 0, 2  # available, acknowledged

MS = int(NOW * 1000)

Run = tuple[int, int, int, int]


class Row(NamedTuple):
    """A row of the table; `request` None where the operation writes no state."""

    operation: str
    request: tuple[int, list[Run]] | None
    record: ShareRecord | None
    start_offset: int
    runs: list[Run]


def checkpoint(epoch: int, start: int, *runs: Run) -> ShareCheckpoint:
    return ShareCheckpoint(KEY, epoch, 1, 1, start, -1, MS, MS, tuple(StateBatch(*run) for run in runs))


def delta(index: int, epoch: int, *runs: Run) -> ShareDelta:
    return ShareDelta(KEY, index, epoch, -1, -1, -1, tuple(StateBatch(*run) for run in runs), MS)


ROWS = [
    Row("starting state, latest offset 100", (100, []), checkpoint(1, 100), 100, []),
    Row("fetch 100-109", None, None, 100, []),
    Row("acknowledge 100-109", (110, []), checkpoint(2, 110), 110, []),
    Row("fetch 110-119 (consumers 1, 2, 3)", None, None, 110, []),
    Row("release 110", (-1, [(110, 110, A, 1)]), delta(1, 2, (110, 110, A, 1)), 110, [(110, 110, A, 1)]),
    Row(
        "acknowledge 119",
        (-1, [(111, 118, A, 0), (119, 119, K, 1)]),
        delta(2, 2, (111, 118, A, 0), (119, 119, K, 1)),
        110,
        [(110, 110, A, 1), (111, 118, A, 0), (119, 119, K, 1)],
    ),
    Row(
        "fetch 110, 120 (consumer 1)",
        None,
        None,
        110,
        [(110, 110, A, 1), (111, 118, A, 0), (119, 119, K, 1)],
    ),
    Row(
        "lock timeout elapsed 111, 112",
        (-1, [(111, 112, A, 1)]),
        delta(3, 2, (111, 112, A, 1)),
        110,
        [(110, 112, A, 1), (113, 118, A, 0), (119, 119, K, 1)],
    ),
    Row(
        "acknowledge 113-118",
        (-1, [(113, 118, K, 1)]),
        delta(4, 2, (113, 118, K, 1)),
        110,
        [(110, 112, A, 1), (113, 119, K, 1)],
    ),
    Row("fetch 111, 112 (consumer 3)", None, None, 110, [(110, 112, A, 1), (113, 119, K, 1)]),
    Row(
        "acknowledge 110",
        (-1, [(110, 110, K, 2)]),
        delta(5, 2, (110, 110, K, 2)),
        110,
        [(110, 110, K, 2), (111, 112, A, 1), (113, 119, K, 1)],
    ),
    Row("acknowledge 111, 112", (120, []), checkpoint(3, 120), 120, []),
]

# The same table under the older rule: the SPSO is never written with a row, so every row is a delta on
# the checkpoint it started from, until a new checkpoint may replace the last one.
OLD_ROWS = [
    Row(
        "acknowledge 100-109",
        (-1, [(100, 109, K, 1)]),
        delta(1, 0, (100, 109, K, 1)),
        100,
        [(100, 109, K, 1)],
    ),
    Row(
        "release 110",
        (-1, [(110, 110, A, 1)]),
        delta(2, 0, (110, 110, A, 1)),
        100,
        [(100, 109, K, 1), (110, 110, A, 1)],
    ),
    Row(
        "acknowledge 119",
        (-1, [(111, 118, A, 0), (119, 119, K, 1)]),
        delta(3, 0, (111, 118, A, 0), (119, 119, K, 1)),
        100,
        [(100, 109, K, 1), (110, 110, A, 1), (111, 118, A, 0), (119, 119, K, 1)],
    ),
    Row(
        "lock timeout elapsed 111, 112",
        (-1, [(111, 112, A, 1)]),
        delta(4, 0, (111, 112, A, 1)),
        100,
        [(100, 109, K, 1), (110, 112, A, 1), (113, 118, A, 0), (119, 119, K, 1)],
    ),
    Row(
        "acknowledge 113-118",
        (-1, [(113, 118, K, 1)]),
        delta(5, 0, (113, 118, K, 1)),
        100,
        [(100, 109, K, 1), (110, 112, A, 1), (113, 119, K, 1)],
    ),
    Row(
        "acknowledge 110",
        (-1, [(110, 110, K, 2)]),
        delta(6, 0, (110, 110, K, 2)),
        100,
        [(100, 109, K, 1), (110, 110, K, 2), (111, 112, A, 1), (113, 119, K, 1)],
    ),
    Row(
        "acknowledge 111, 112, as a delta",
        (-1, [(111, 112, K, 2)]),
        delta(7, 0, (111, 112, K, 2)),
        100,
        [(100, 109, K, 1), (110, 112, K, 2), (113, 119, K, 1)],
    ),
    Row("or alternatively, a new checkpoint", (120, []), checkpoint(1, 120), 120, []),
]


def play(rows: list[Row], start_offset: int) -> Shard:
    shard = Shard()
    shard.run(Initialize(KEY, 1, start_offset))
    shard.run(read(1))
    for row in rows:
        if row.request is not None:
            start, runs = row.request
            shard.run(Write(KEY, 1, 1, start, -1, tuple(StateBatch(*run) for run in runs)))
    return shard


@pytest.mark.parametrize("number", range(len(ROWS)), ids=[row.operation for row in ROWS])
def test_request_leads_to_the_row_of_the_request_table(number: int) -> None:
    check(ROWS, number, -1)


@pytest.mark.parametrize("number", range(len(OLD_ROWS)), ids=[row.operation for row in OLD_ROWS])
def test_request_writes_the_row_of_the_record_table(number: int) -> None:
    rows = [row._replace(record=_with_count(row.record, 0)) for row in OLD_ROWS]
    check(rows, number, 100)


def check(rows: list[Row], number: int, start_offset: int) -> None:
    row = rows[number]
    before, shard = play(rows[:number], start_offset), play(rows[: number + 1], start_offset)
    assert shard.records()[len(before.log) :] == ([] if row.record is None else [row.record])
    expected = ReadReply(1, row.start_offset, tuple(StateBatch(*run) for run in row.runs))
    for owner in (shard, shard.replayed()):
        assert owner.run(read(1)) == expected


def _with_count(record: ShareRecord | None, count: int) -> ShareRecord | None:
    if isinstance(record, ShareCheckpoint):
        return record._replace(delivery_complete_count=-1)
    return record._replace(delivery_complete_count=count) if isinstance(record, ShareDelta) else record


def test_checkpoint_replays_like_the_delta_it_replaces() -> None:
    """Any delta may be a checkpoint instead: the replayed state is the same."""
    for number in range(len(ROWS)):
        shard = play(ROWS[: number + 1], -1)
        state = shard.state()
        assert state is not None
        shard.write(
            [
                ShareCheckpoint(
                    KEY, state.checkpoint_epoch + 1, 1, 1, state.start_offset, -1, MS, MS, tuple(state.runs)
                )
            ]
        )
        expected = ReadReply(1, ROWS[number].start_offset, tuple(StateBatch(*r) for r in ROWS[number].runs))
        assert shard.replayed().run(read(1)) == expected
