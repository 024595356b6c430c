"""Reading in slices accepts what reading at once accepts, wherever the slices end."""

from __future__ import annotations

from unittest.mock import patch

from aiokafka.record.default_records import DefaultRecordBatch
from hypothesis import given
from hypothesis import strategies as st

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.record_log import record_validation
from sharebroker_server.record_log.core.batch import HEADER_SIZE, header_of, seal
from sharebroker_server.record_log.record_validation import check_records
from tests.unit.record_log.batches import of_records

headers = st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=4)
records = st.tuples(st.none() | st.binary(max_size=20), st.none() | st.binary(max_size=200), headers)
changes = st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=3)


def accepted_at_once(data: bytes) -> bool:
    """The naive model: decodes all records."""
    try:
        offsets = [record.offset for record in DefaultRecordBatch(data)]
    except Exception:
        return False
    return offsets == list(range(header_of(data).record_count))


def accepted_in_slices(data: bytes) -> bool:
    try:
        check_records(header_of(data), data)
    except KafkaError:
        return False
    return True


@given(st.lists(records, min_size=1, max_size=20), changes, st.integers(1, 300), st.booleans(), st.booleans())
def test_slices_accept_the_same_batches_as_one_pass(
    some: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]],
    changed: list[tuple[int, int]],
    slice_bytes: int,
    large: bool,
    scans: bool,
) -> None:
    good = of_records((1000, *record) for record in some)
    plain = bytearray(good[HEADER_SIZE:])
    for position, value in changed:
        plain[position % len(plain)] = value
    data = seal(header_of(good), bytes(plain))
    with (
        patch.object(record_validation, "_SLICE_BYTES", slice_bytes),
        patch.object(record_validation, "_LARGE_BATCH", 0 if large else 1 << 20),
        patch.object(record_validation, "_LARGE_RECORD", slice_bytes),
        patch.object(record_validation, "SLICE_RECORDS", 3),
        patch.object(record_validation, "_SCANS", scans),
    ):
        assert accepted_in_slices(data) == accepted_at_once(data)
