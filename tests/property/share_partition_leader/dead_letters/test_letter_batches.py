"""Any letters come out of their batches in order, within the limit of the topic."""

from __future__ import annotations

from typing import Any

from aiokafka.record.default_records import DefaultRecordBatch
from hypothesis import given
from hypothesis import strategies as st

from sharebroker_server.share_partition_leader.dead_letters.letters import (
    FailedRecord,
    LetterSource,
    OriginalRecord,
    build_batch,
    make_letter,
)

SOURCE = LetterSource("g", "t", "T", 0)
some_bytes = st.none() | st.binary(max_size=400)
originals = st.none() | st.builds(
    OriginalRecord, some_bytes, some_bytes, st.lists(st.tuples(st.text(max_size=9), some_bytes), max_size=3)
)


@given(st.lists(originals, max_size=12), st.integers(600, 3_000), st.booleans())
def test_letters_are_complete_ordered_and_within_the_limit(
    records: list[OriginalRecord | None], limit: int, copy: bool
) -> None:
    letters = [
        make_letter(SOURCE, FailedRecord(offset, 1, 1), record, copy=copy)
        for offset, record in enumerate(records)
    ]
    found: list[Any] = []
    while len(found) < len(letters):
        data, count = build_batch(letters[len(found) :], 1_000, limit)
        assert len(data) <= limit
        batch = list(DefaultRecordBatch(data))
        assert len(batch) == count > 0
        found += batch
    for offset, (record, original) in enumerate(zip(found, records, strict=True)):
        headers = dict(record.headers)
        assert headers["__dlq.errors.offset"] == str(offset).encode()
        outcome = headers["__dlq.errors.copy"].decode()
        if outcome == "full":
            assert copy
            assert original is not None
            assert (record.key, record.value) == (original.key, original.value)
            copied = [header for header in record.headers if not header[0].startswith("__dlq.errors.")]
            assert copied == [each for each in original.headers if not each[0].startswith("__dlq.errors.")]
        else:
            assert (record.key, record.value) == (None, None)
            assert outcome == ("off" if not copy else "gone" if original is None else "too_large")
