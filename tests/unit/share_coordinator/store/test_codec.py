from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharebroker_protocol.model import (
    Disposition,
    FailedRecords,
    FailureNote,
    JournalUpdate,
    SharePartitionKey,
    StateBatch,
    StateNote,
)
from sharebroker_protocol.storage.v1 import share_state_pb2 as pb
from sharebroker_server.share_coordinator.core.state import (
    CheckpointTombstone,
    DeltaTombstone,
    ShareCheckpoint,
    ShareDelta,
    ShareRecord,
)
from sharebroker_server.share_coordinator.store.codec import CHUNK, COLUMNS_FROM, ShareRecordCodec
from tests.unit.share_coordinator.harness import KEY, batch

CODEC = ShareRecordCodec()

int32 = st.integers(-1, 2**31 - 1)
int64 = st.integers(-1, 2**63 - 1)
keys = st.builds(SharePartitionKey, st.text(st.characters(exclude_categories=["Cs"])), st.text("Ab_-"), int32)
RUNS = 20_000
"""`group.share.partition.max.runs`."""

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=3)
notes = st.one_of(
    st.none(),
    st.builds(StateNote, int64, TEXT, int64, st.none()),
    st.builds(
        StateNote, st.just(0), st.just(""), st.just(0), st.builds(FailureNote, int32, int64, TEXT, TEXT)
    ),
)
batches = st.lists(st.builds(StateBatch, int64, int64, st.integers(0, 4), int32, notes), max_size=4).map(
    tuple
)
failures = st.builds(FailedRecords, int64, int64, int32, int32, int64, TEXT, TEXT)
journals = st.none() | st.builds(
    JournalUpdate, st.lists(failures, max_size=3).map(tuple), int32, int64, st.booleans()
)
records: st.SearchStrategy[ShareRecord] = st.one_of(
    st.builds(
        ShareCheckpoint, keys, int32, int32, int32, int64, int32, int64, int64, batches, journals, int32
    ),
    st.builds(ShareDelta, keys, int32, int32, int32, int64, int32, batches, int64, journals),
    st.builds(CheckpointTombstone, keys, int64),
    st.builds(DeltaTombstone, keys, int32, int64),
)


@given(records)
def test_record_round_trip(record: ShareRecord) -> None:
    decoded = CODEC.decode(CODEC.encode(record))
    assert decoded == record
    assert type(decoded) is type(record)


@pytest.mark.parametrize(
    ("record", "payload"),
    [
        (
            ShareCheckpoint(SharePartitionKey("g", "t", 3), 7, 2, 5, 100, 4, 1000, 2000, (batch(100, 109),)),
            "0a080a01671201741803 121a0807100218052064280430e80738d00f4208 0864106d18022001",
        ),
        (
            ShareDelta(SharePartitionKey("g", "t", 3), 255, 7, -1, -1, 0, (batch(100, 100, 0),)),
            "0a080a01671201741803 1a0d08ff011007 3206086410642001",
        ),
        (CheckpointTombstone(SharePartitionKey("g", "t", 3)), "0a080a01671201741803 2200"),
        (DeltaTombstone(SharePartitionKey("g", "t", 3), 0), "0a080a01671201741803 2a00"),
        (DeltaTombstone(SharePartitionKey("g", "t", 3), 255), "0a080a01671201741803 2a0308ff01"),
        (
            ShareDelta(SharePartitionKey("g", "t", 3), 255, 7, -1, -1, 0, (batch(100, 100, 0),), 1000),
            "0a080a01671201741803 1a1008ff011007 3206086410642001 38e807",
        ),
        (CheckpointTombstone(SharePartitionKey("g", "t", 3), 1000), "0a080a01671201741803 220308e807"),
        (DeltaTombstone(SharePartitionKey("g", "t", 3), 255, 1000), "0a080a01671201741803 2a0608ff0110e807"),
    ],
)
def test_stored_bytes_of_old_logs_are_decoded(record: ShareRecord, payload: str) -> None:
    """A stream written by an older version must always replay."""
    assert CODEC.decode(bytes.fromhex(payload)) == record
    assert CODEC.encode(record) == bytes.fromhex(payload)


def as_older_versions_read(payload: bytes) -> tuple[StateBatch, ...]:
    """Returns the batches of a checkpoint without a use of its columns."""
    message = pb.ShareStateRecord.FromString(payload)
    message.checkpoint.ClearField("columns")
    message.checkpoint.ClearField("noted")
    stored = CODEC.decode(message.SerializeToString())
    assert isinstance(stored, ShareCheckpoint)
    return stored.state_batches


def checkpoint_of(batches: tuple[StateBatch, ...]) -> ShareCheckpoint:
    return ShareCheckpoint(SharePartitionKey("g", "t", 3), 7, 2, 5, 0, 4, 1000, 2000, batches)


@pytest.mark.slow
@given(
    st.lists(
        st.builds(StateBatch, int64, int64, st.integers(0, 4), int32, notes),
        min_size=COLUMNS_FROM,
        max_size=COLUMNS_FROM + 4,
    ).map(tuple)
)
def test_a_checkpoint_with_columns_is_read_by_old_and_new_versions(batches: tuple[StateBatch, ...]) -> None:
    checkpoint = checkpoint_of(batches)
    payload = CODEC.encode(checkpoint)
    assert pb.ShareStateRecord.FromString(payload).checkpoint.columns
    assert CODEC.decode(payload) == checkpoint
    assert as_older_versions_read(payload) == batches


@pytest.mark.parametrize("number", [COLUMNS_FROM - 1, COLUMNS_FROM, CHUNK, CHUNK + 1, 3 * CHUNK - 1])
def test_checkpoints_of_any_size_are_decoded(number: int) -> None:
    batches = tuple(
        StateBatch(
            n, n, 2 * (n % 2), n % 3, None if n % 2 else StateNote(n + 1, "user@m", n) if n % 8 else None
        )
        for n in range(number)
    )
    checkpoint = checkpoint_of(batches)
    payload = CODEC.encode(checkpoint)
    assert pb.ShareStateRecord.FromString(payload).checkpoint.columns == (number >= COLUMNS_FROM)
    assert CODEC.decode(payload) == checkpoint
    assert as_older_versions_read(payload) == batches
    changed = checkpoint_of((*batches[:-1], batches[-1]._replace(delivery_count=9)))
    assert CODEC.decode(CODEC.encode(changed)) == changed
    assert CODEC.decode(CODEC.encode(checkpoint)) == checkpoint


@pytest.mark.parametrize("number", [3, COLUMNS_FROM, CHUNK + 1])
def test_failures_of_archiving_records_are_stored(number: int) -> None:
    failed = StateNote(failure=FailureNote(2, 5, "m1", "bad"))
    notes = [failed, None, StateNote(7), StateNote(9, "@m", 5), StateNote(failure=FailureNote(1))]
    states = [3, 3, 0, 0, 3]
    batches = tuple(StateBatch(n, n, states[n % 5], 1, notes[n % 5]) for n in range(number))
    checkpoint = checkpoint_of(batches)
    payload = CODEC.encode(checkpoint)
    assert CODEC.decode(payload) == checkpoint
    stored = pb.ShareStateRecord.FromString(payload).checkpoint.state_batches[0]
    assert (stored.delivery_state, stored.note.failure.reason) == (3, "bad")


@pytest.mark.parametrize("noted", [[], [0, 1], [CHUNK]])
def test_columns_of_different_lengths_are_rejected(noted: list[int]) -> None:
    batches = tuple(StateBatch(n, n, 0, 1, None if n else StateNote(7)) for n in range(CHUNK))
    message = pb.ShareStateRecord.FromString(CODEC.encode(checkpoint_of(batches)))
    del message.checkpoint.noted[:]
    message.checkpoint.noted.extend(noted)
    with pytest.raises(ValueError, match="columns"):
        CODEC.decode(message.SerializeToString())


def test_a_missing_zero_is_rejected() -> None:
    batches = tuple(StateBatch(n, n, 0, 1) for n in range(CHUNK))
    message = pb.ShareStateRecord.FromString(CODEC.encode(checkpoint_of(batches)))
    message.checkpoint.state_batches.add(first_offset=CHUNK)
    with pytest.raises(ValueError, match="columns"):
        CODEC.decode(message.SerializeToString())


@pytest.mark.parametrize(
    "payload", [b"", b"\xff", b"hello", pb.ShareStateRecord(key=pb.SharePartitionKey()).SerializeToString()]
)
def test_invalid_payload_is_rejected(payload: bytes) -> None:
    with pytest.raises(ValueError, match="share state record"):
        CODEC.decode(payload)


def test_a_delta_of_one_batch_is_small() -> None:
    record = ShareDelta(KEY, 100, 10_000, -1, 1_000_000, 7, (batch(1_000_000, 1_000_099),), 1_790_000_000_000)
    assert len(CODEC.encode(record)) <= 64


def test_a_checkpoint_of_the_most_runs_is_smaller_than_a_mebibyte() -> None:
    base = 1 << 50
    runs = tuple(StateBatch(base + n, base + n, 2 * (n % 2), 5) for n in range(RUNS))
    key = SharePartitionKey("group", "A" * 22, 0)
    checkpoint = ShareCheckpoint(key, 1, 1, 1, base, RUNS // 2, 1, 1, runs)
    encoded = ShareRecordCodec().encode(checkpoint)
    assert len(encoded) < 1 << 20
    assert ShareRecordCodec().decode(encoded) == checkpoint


def test_a_batch_without_a_note_is_encoded_as_before() -> None:
    first = pb.ShareStateBatch(first_offset=5, last_offset=9, delivery_count=1)
    assert first.SerializeToString().hex() == "080510092001"
    delta = pb.ShareDelta(checkpoint_epoch=1, state_batches=[first])
    encoded = CODEC.encode(ShareDelta(KEY, 0, 1, -1, -1, 0, (batch(5, 9, 0),)))
    assert encoded.endswith(pb.ShareStateRecord(delta=delta).SerializeToString())


@pytest.mark.parametrize("complete", [True, False])
def test_failed_records_are_stored_with_the_change(complete: bool) -> None:
    entries = (
        FailedRecords(5, 9, Disposition.REJECTED, 2, 1_790_000_000_000, "m1", "no such account"),
        FailedRecords(12, 12, Disposition.EXPIRED, 0, 1_790_000_000_000),
    )
    failed = JournalUpdate(entries, 100, 7, complete)
    for record in (
        ShareDelta(KEY, 0, 1, -1, -1, 0, (batch(5, 9, 4),), 5, failed),
        ShareCheckpoint(KEY, 7, 2, 5, 100, 4, 1000, 2000, (), failed),
    ):
        assert CODEC.decode(CODEC.encode(record)) == record


def test_an_entry_is_small() -> None:
    entry = FailedRecords(1 << 40, (1 << 40) + 9, Disposition.REJECTED, 5, 1_790_000_000_000, "m" * 22, "")
    with_entry = ShareDelta(KEY, 0, 1, -1, -1, 0, (), 5, JournalUpdate((entry,), 100))
    assert len(CODEC.encode(with_entry)) - len(CODEC.encode(with_entry._replace(failed=None))) <= 64


def test_a_reader_without_notes_ignores_them() -> None:
    noted = pb.ShareStateBatch(first_offset=5, note=pb.ShareStateNote(not_before_ms=7)).SerializeToString()
    known = pb.ShareStateBatch(first_offset=5).SerializeToString()
    assert noted.startswith(known)


def test_a_note_without_a_lock_is_encoded_as_before() -> None:
    assert pb.ShareStateNote(not_before_ms=7, holder="", lock_token=0).SerializeToString().hex() == "0807"
