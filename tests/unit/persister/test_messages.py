"""Messages about share state, and their values."""

from __future__ import annotations

from sharebroker_protocol.model import FailedRecords, JournalUpdate, StateBatch, StateNote
from sharebroker_server.persister.messages import FAILED_RECORDS, JOURNAL_UPDATE, STATE_BATCH

BATCHES = (StateBatch(100, 109, 2, 1), StateBatch(111, 111, 0, 3, StateNote(2_000, "m", 7)))
FAILED = FailedRecords(5, 7, 1, 3, 1_000, "m", "bad")


def test_batches_round_trip() -> None:
    sent = [*map(STATE_BATCH.message, BATCHES)]
    assert [(part.first_offset, part.last_offset) for part in sent] == [(100, 109), (111, 111)]
    assert tuple(map(STATE_BATCH.value, sent)) == BATCHES


def test_failed_records_round_trip() -> None:
    sent = FAILED_RECORDS.message(FAILED)
    assert (sent.first_offset, sent.last_offset) == (5, 7)
    assert FAILED_RECORDS.value(sent) == FAILED


def test_journal_update_round_trips() -> None:
    update = JournalUpdate((FAILED,), 100, 2)
    assert JOURNAL_UPDATE.value(JOURNAL_UPDATE.message(update)) == update
