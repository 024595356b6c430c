"""Notes of a partition: small named values, each stored in the same step as the records of its append.

An append that must be recognised when it is repeated, or whose records have a property that readers need,
writes a note with its records (decision 0103). Neither is stored alone.

A note may be attached to a range of records. It is removed once the log start passes them. Other notes are
kept until `PartitionLog.remove_notes`.

Each change of a note has a higher version than the one before: the time in ms, or one above the previous
version. After the loss of data a leader compares it with the version in the store, and keeps the later one.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from sharebroker_protocol.errors import ErrorCode, KafkaError

MAX_NOTES: Final = 10_000
"""The number of notes per partition."""

MAX_NOTE_BYTES: Final = 128 << 10
"""The size of a note's value."""

MAX_NOTES_BYTES: Final = 8 << 20
"""The size of all keys and values of a partition."""

MAX_KEY_BYTES: Final = 1_024
"""The size of a note's key in UTF-8."""

RETRY_AFTER: Final = 1.0
"""Seconds after which an append may be sent again that had no room for its note."""

_FORMAT: Final = 1
_HEADER: Final = struct.Struct(">Bqqq")


class Note(NamedTuple):
    """A value, the first and last offset of the records it is attached to (-1: none), and its version."""

    value: bytes
    first_offset: int = -1
    last_offset: int = -1
    version: int = 0

    @property
    def attached(self) -> bool:
        """Whether the note belongs to records, and is removed with them."""
        return self.last_offset >= 0

    def packed(self) -> bytes:
        """Returns the stored form."""
        return _HEADER.pack(_FORMAT, self.version, self.first_offset, self.last_offset) + self.value


class Notes:
    """The durable notes of one partition; only drafts change them, except for removals."""

    __slots__ = ("_notes", "attached", "size")

    def __init__(self, notes: Mapping[str, Note] | None = None) -> None:
        self._notes = dict(notes or {})
        self.size = sum(_size(key, note.value) for key, note in self._notes.items())
        """The size of all keys and values in bytes."""
        self.attached = sorted((note.last_offset, key) for key, note in self._notes.items() if note.attached)
        """The last offsets and keys of the notes that are attached to records, ascending."""

    @classmethod
    def load(cls, stored: Mapping[str, bytes]) -> Notes:
        """Returns the notes with these stored forms.

        Raises:
            ValueError: a note has an unknown format version.
        """
        notes: dict[str, Note] = {}
        for key, packed in stored.items():
            if packed[0] != _FORMAT:
                raise ValueError(f"note {key!r} has unknown format {packed[0]}")
            _, version, first, last = _HEADER.unpack_from(packed)
            notes[key] = Note(packed[_HEADER.size :], first, last, version)
        return cls(notes)

    def __len__(self) -> int:
        return len(self._notes)

    def get(self, key: str) -> Note | None:
        """Returns a note, None if there is none with this key."""
        return self._notes.get(key)

    def version(self, key: str) -> int:
        """Returns the version of a note."""
        return self._notes[key].version

    def items(self) -> Iterable[tuple[str, Note]]:
        """Returns all keys and notes."""
        return self._notes.items()

    def attached_in(self, first: int, end: int) -> Iterator[tuple[str, Note]]:
        """Yields the notes attached to a record with an offset in [first, end), ascending by offset.

        The ranges of attached notes must be equal or not overlap.
        """
        for index in range(self._below(first), len(self.attached)):
            key = self.attached[index][1]
            note = self._notes[key]
            if note.first_offset >= end:
                break
            yield key, note

    def attached_before(self, offset: int) -> list[str]:
        """Returns the keys of the notes whose records are all below the offset."""
        return [key for _, key in self.attached[: self._below(offset)]]

    def commit(self, draft: NotesDraft) -> None:
        """Applies a draft that is durable now."""
        for key, note in draft.changed.items():
            self.remove((key,))
            self._notes[key] = note
            self.size += _size(key, note.value)
            if note.attached:
                insort(self.attached, (note.last_offset, key))

    def remove(self, keys: Iterable[str]) -> None:
        """Removes notes; unknown keys are ignored."""
        for key in keys:
            note = self._notes.pop(key, None)
            if note is None:
                continue
            self.size -= _size(key, note.value)
            if note.attached:
                del self.attached[bisect_left(self.attached, (note.last_offset, key))]

    def _below(self, offset: int) -> int:
        return bisect_left(self.attached, (offset, ""))


class NotesDraft:
    """The notes of pending appends; each append sees those before it."""

    __slots__ = ("_base", "_now_ms", "_number", "_size", "changed")

    def __init__(self, base: Notes, now_ms: int) -> None:
        self._base = base
        self._now_ms = now_ms
        self._number, self._size = len(base), base.size
        self.changed: dict[str, Note] = {}

    def __bool__(self) -> bool:
        return bool(self.changed)

    def get(self, key: str) -> Note | None:
        """Returns a note after the earlier appends, None if there is none with this key."""
        return self.changed.get(key) or self._base.get(key)

    def set(self, changes: Mapping[str, Note]) -> None:
        """Adds notes, or replaces those with the same keys; their versions are ignored. All or none.

        Raises:
            KafkaError: INVALID_REQUEST for a key or value that is too large; THROTTLING_QUOTA_EXCEEDED if
                the partition would have too many notes.
        """
        number, size = self._number, self._size
        for key, note in changes.items():
            if len(key.encode()) > MAX_KEY_BYTES or len(note.value) > MAX_NOTE_BYTES:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"A note has {len(note.value)} bytes under a key of {len(key.encode())}; "
                    f"{MAX_NOTE_BYTES} and {MAX_KEY_BYTES} are allowed.",
                )
            before = self.get(key)
            number += before is None
            size += _size(key, note.value) - (0 if before is None else _size(key, before.value))
        if number > max(MAX_NOTES, self._number) or size > max(MAX_NOTES_BYTES, self._size):
            raise KafkaError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED,
                f"The partition would have {number} notes of {size} bytes; {MAX_NOTES} of {MAX_NOTES_BYTES} "
                "bytes are allowed.",
                retry_after=RETRY_AFTER,
            )
        self._number, self._size = number, size
        for key, note in changes.items():
            before = self.get(key)
            version = self._now_ms if before is None else max(self._now_ms, before.version + 1)
            self.changed[key] = note._replace(version=version)


def _size(key: str, value: bytes) -> int:
    return len(key) + len(value)
