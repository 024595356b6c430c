"""The record batches that belong to acquired ranges."""

from __future__ import annotations

import pytest

from sharebroker_protocol.model import AcquiredRange
from sharebroker_server.share_partition_leader.partition.fetch_result import Fetched, bytes_of


class Batch:
    """A stored batch of ten offsets; its data is its number."""

    def __init__(self, number: int) -> None:
        self.base_offset, self.last_offset = number * 10, number * 10 + 9
        self.data = b"%d" % number


def ranges(*spans: tuple[int, int]) -> list[AcquiredRange]:
    return [AcquiredRange(first, last, 1, 1, 0.0) for first, last in spans]


@pytest.mark.parametrize(
    ("acquired", "data"),
    [
        pytest.param([(0, 29)], b"012", id="all"),
        pytest.param([(12, 13)], b"1", id="inside one batch"),
        pytest.param([(9, 10)], b"01", id="across two batches"),
        pytest.param([(3, 4), (25, 26)], b"02", id="two ranges with a batch between"),
        pytest.param([(3, 4), (8, 8), (12, 29)], b"012", id="several ranges in one batch"),
        pytest.param([(5, 5), (11, 12)], b"01", id="nothing after the last range"),
    ],
)
def test_only_batches_with_acquired_records_are_sent(acquired: list[tuple[int, int]], data: bytes) -> None:
    batches = [Batch(number) for number in range(3)]
    assert bytes_of(batches, ranges(*acquired)) == data  # type: ignore[arg-type]


def test_a_single_batch_is_not_copied() -> None:
    batch = Batch(0)
    assert bytes_of([batch], ranges((0, 2))) is batch.data  # type: ignore[list-item]


def test_offsets_counts_all_ranges() -> None:
    assert Fetched(ranges((0, 4), (7, 7)), b"").offsets == 6
