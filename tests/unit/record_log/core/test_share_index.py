"""The index of share state: what is needed, the SCO of each group, and the ESO."""

from __future__ import annotations

import pytest

from sharebroker_server.record_log.core.share_control import SHARE_DELTA, ControlRecord
from sharebroker_server.record_log.core.share_index import (
    CHECKPOINT_SLOT,
    IndexedRecord,
    IndexEntry,
    ShareIndex,
    state_batch,
)
from sharebroker_server.record_log.core.snapshots import load_snapshots


def checkpoint(group_id: str, offset: int, *, deleted: bool = False) -> IndexEntry:
    return IndexEntry(group_id, CHECKPOINT_SLOT, offset, offset - 1, deleted)


def delta(group_id: str, slot: int, offset: int) -> IndexEntry:
    return IndexEntry(group_id, slot, offset, offset - 1)


HISTORY = [
    checkpoint("g", 10),
    delta("g", 0, 12),
    checkpoint("h:é", 13),
    delta("g", 1, 15),
    checkpoint("g", 16),
    delta("h:é", 0, 18),
    delta("g", 2, 19),
]


def filled() -> ShareIndex:
    index = ShareIndex()
    index.add(HISTORY)
    return index


def test_only_the_newest_checkpoints_and_the_deltas_after_them_are_needed() -> None:
    index = filled()
    assert index.needed() == [13, 16, 18, 19]
    assert (index.checkpoint_offset("g"), index.checkpoint_offset("h:é")) == (16, 13)
    assert index.checkpoint_offset("other") is None
    assert index.earliest() == 13
    assert index.records_end == 18


def test_groups_are_found_whose_checkpoint_is_below_an_offset() -> None:
    index = filled()
    assert index.groups_before(13) == []
    assert index.groups_before(14) == ["h:é"]
    assert index.groups_before(17) == ["h:é", "g"]


def test_an_index_without_groups_pins_nothing() -> None:
    index = ShareIndex()
    assert not index
    assert (index.needed(), index.earliest(), index.records_end) == ([], None, -1)


def test_an_index_survives_storage() -> None:
    stored: dict[str, bytes] = {}
    for entry in HISTORY:
        stored[entry.name] = entry.packed()
    assert set(stored) == {"cg", "d0:g", "d1:g", "d2:g", "ch:é", "d0:h:é"}
    again = ShareIndex.load(stored)
    assert sorted(again.entries()) == sorted(filled().entries())
    assert (again.needed(), again.records_end) == ([13, 16, 18, 19], 18)


def test_a_deleted_group_pins_nothing_and_its_names_are_removed() -> None:
    index = filled()
    index.add([checkpoint("g", 20, deleted=True)])
    assert index.needed() == [13, 18]
    assert index.checkpoint_offset("g") is None
    assert index.deleted == {"g"}
    assert sorted(index.remove(["g", "h:é"])) == ["cg", "d0:g", "d1:g", "d2:g"]
    assert index.deleted == frozenset()
    assert index.needed() == [13, 18]


def test_a_group_that_returns_is_not_removed() -> None:
    index = filled()
    index.add([checkpoint("g", 20, deleted=True), checkpoint("g", 21)])
    assert index.remove(["g"]) == []
    assert index.needed() == [13, 18, 21]


def test_a_delta_of_a_deleted_group_is_not_needed() -> None:
    index = ShareIndex()
    index.add([checkpoint("g", 1), checkpoint("g", 2, deleted=True), delta("g", 0, 3)])
    assert index.needed() == []


def test_a_batch_with_several_records_is_read_once() -> None:
    index, records = ShareIndex(), [_record("g", CHECKPOINT_SLOT), _record("h", CHECKPOINT_SLOT)]
    for records_of, base in ((records, 4), ([_record("g", 0), _record("h", 0), _record("g", 1)], 9)):
        index.add(state_batch(records_of, base, base)[1])
    assert index.needed() == [4, 5, 9, 10, 11]
    stored = {entry.name: entry.packed() for entry in index.entries()}
    assert ShareIndex.load(stored).needed_batches() == index.needed_batches() == [4, 9]


def _record(group_id: str, slot: int) -> IndexedRecord:
    return IndexedRecord(ControlRecord(SHARE_DELTA, 0, b""), group_id, slot)


def test_absent_and_earlier_entries_count_as_lost() -> None:
    index, earlier = filled(), ShareIndex()
    earlier.add(HISTORY[:4])
    assert index.lost(earlier).keys() == {"cg", "d0:h:é", "d2:g"}
    assert index.lost(index) == {}
    assert earlier.lost(index) == {}
    assert index.lost(earlier)["cg"] == HISTORY[4].packed()
    assert index.lost(earlier, range(16, 19)).keys() == {"d2:g"}


@pytest.mark.parametrize("stored", [b"\x09" + bytes(17), b"\x01", bytes(18)])
def test_an_entry_of_an_unknown_format_is_rejected(stored: bytes) -> None:
    with pytest.raises(ValueError, match="'cg' has unknown format"):
        ShareIndex.load({"cg": stored})


def test_a_server_without_state_in_logs_does_not_open_the_log() -> None:
    """To it the names are of an unknown kind, whose format must be 0."""
    entry = IndexEntry("g", CHECKPOINT_SLOT, 3, 2)
    with pytest.raises(ValueError, match="unknown format 1"):
        load_snapshots({f"?{entry.name}": entry.packed()})
