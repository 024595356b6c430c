"""Notes: their stored form, bounds, versions, and the ranges of records that they are attached to."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.record_log.core import notes as module
from sharebroker_server.record_log.core.notes import MAX_KEY_BYTES, MAX_NOTE_BYTES, Note, Notes, NotesDraft


def changed(notes: Notes, changes: dict[str, Note], now_ms: int = 1000) -> Notes:
    draft = NotesDraft(notes, now_ms)
    draft.set(changes)
    notes.commit(draft)
    return notes


def test_notes_survive_storage() -> None:
    notes = changed(Notes(), {"a": Note(b"\x00\xff"), "b\0ü": Note(b"", 5, 9)})
    again = Notes.load({key: note.packed() for key, note in notes.items()})
    assert dict(again.items()) == {"a": Note(b"\x00\xff", -1, -1, 1000), "b\0ü": Note(b"", 5, 9, 1000)}
    assert again.size == notes.size == 6


def test_a_note_of_an_unknown_format_is_rejected() -> None:
    with pytest.raises(ValueError, match="unknown format 9"):
        Notes.load({"a": b"\x09"})


def test_each_change_has_a_higher_version() -> None:
    notes = changed(Notes(), {"a": Note(b"1")}, 1000)
    draft = NotesDraft(notes, 900)
    draft.set({"a": Note(b"2"), "b": Note(b"1")})
    draft.set({"a": Note(b"3")})
    notes.commit(draft)
    assert dict(notes.items()) == {"a": Note(b"3", version=1002), "b": Note(b"1", version=900)}


def test_a_draft_sees_earlier_changes_and_leaves_the_notes_alone() -> None:
    notes = changed(Notes(), {"a": Note(b"1")})
    draft = NotesDraft(notes, 2000)
    draft.set({"a": Note(b"2")})
    assert draft.get("a") == Note(b"2", version=2000)
    assert notes.get("a") == Note(b"1", version=1000)
    assert draft.get("b") is None


@pytest.mark.parametrize(
    ("first", "end", "keys"),
    [(0, 100, ["x", "y", "z"]), (4, 5, ["x"]), (5, 10, []), (10, 11, ["y"]), (13, 20, []), (13, 21, ["z"])],
)
def test_attached_notes_are_found_by_offset(first: int, end: int, keys: list[str]) -> None:
    notes = changed(
        Notes(), {"z": Note(b"", 20, 29), "y": Note(b"", 10, 12), "x": Note(b"", 3, 4), "w": Note(b"")}
    )
    assert notes.attached
    assert [key for key, _ in notes.attached_in(first, end)] == keys


def test_attached_notes_end_with_their_last_record() -> None:
    notes = changed(Notes(), {"x": Note(b"", 3, 4), "y": Note(b"", 10, 12), "w": Note(b"")})
    assert [notes.attached_before(offset) for offset in (4, 5, 12, 13)] == [[], ["x"], ["x"], ["x", "y"]]
    notes.remove(["x", "w", "unknown"])
    assert dict(notes.items()) == {"y": Note(b"", 10, 12, 1000)}
    assert notes.size == 1


def test_a_replaced_note_is_attached_once() -> None:
    notes = changed(Notes(), {"x": Note(b"long", 3, 4)})
    changed(notes, {"x": Note(b"", 7, 8)})
    assert [key for key, _ in notes.attached_in(0, 9)] == ["x"]
    assert notes.size == 1
    changed(notes, {"x": Note(b"")})
    assert not notes.attached


@pytest.mark.parametrize(
    ("key", "value"),
    [("k" * (MAX_KEY_BYTES + 1), b""), ("ü" * MAX_KEY_BYTES, b""), ("k", b"v" * (MAX_NOTE_BYTES + 1))],
)
def test_a_large_note_is_rejected(key: str, value: bytes) -> None:
    draft = NotesDraft(Notes(), 0)
    with pytest.raises(KafkaError) as caught:
        draft.set({"a": Note(b""), key: Note(value)})
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    assert not draft.changed


@pytest.mark.patches
def test_the_number_and_size_of_notes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_NOTES", 2)
    monkeypatch.setattr(module, "MAX_NOTES_BYTES", 10)
    notes = changed(Notes(), {"a": Note(b"123"), "b": Note(b"123")})
    for changes in ({"c": Note(b"")}, {"a": Note(b"123456")}, {"a": Note(b""), "c": Note(b"")}):
        draft = NotesDraft(notes, 0)
        with pytest.raises(KafkaError) as caught:
            draft.set(changes)
        assert caught.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert caught.value.retry_after == 1.0
    changed(notes, {"a": Note(b"12345")})
    monkeypatch.setattr(module, "MAX_NOTES", 1)
    monkeypatch.setattr(module, "MAX_NOTES_BYTES", 1)
    changed(notes, {"a": Note(b"1")})  # what is there already may be replaced
    assert notes.get("a") == Note(b"1", version=1002)
