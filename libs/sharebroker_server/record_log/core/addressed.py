"""Addressed records: copies of earlier records that only one share group receives (decision 0105).

All other groups archive them when they read them. A note that is attached to the copies states the group, the
request that made them, and which records they are copies of. A record header has no such effect, because any
producer may write one.

A redrive of dead letters attaches a note to its copies, too: it states of which letters they are (decision
0106). The copies are only addressed if they have the other note as well.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, NamedTuple

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.record_log.core.notes import Note, Notes

MAX_COPIES: Final = 1_000
"""The number of copies in one append, whose sources one note lists."""

_KEY: Final = "to:"
_REDRIVEN: Final = "re:"
_LENGTH: Final = struct.Struct(">H")
_RUN: Final = struct.Struct(">qI")


class CopyAddress(NamedTuple):
    """The share group that receives the copies, and the id of the request that made them."""

    group_id: str
    request_id: str


class CopiedRun(NamedTuple):
    """Neighbouring records first..last that were copied, and the offset of the first copy."""

    first: int
    last: int
    copy: int

    def copy_of(self, offset: int) -> int:
        """Returns the offset of the copy of a record in this run."""
        return self.copy + offset - self.first


class AlreadyCopiedError(KafkaError):
    """An earlier append for the same request copied some of the records (DUPLICATE_RESOURCE)."""


def note_of(sources: Sequence[int], base_offset: int, address: CopyAddress) -> dict[str, Note]:
    """Returns the note of copies that are appended at `base_offset`, in the order of `sources`."""
    return _note(_KEY, sources, base_offset, address)


def redrive_note(letters: Sequence[int], base_offset: int, address: CopyAddress) -> dict[str, Note]:
    """Returns the note of letters whose records are appended at `base_offset`, in their order.

    The request id of the address contains the partition of the letters. Its group is empty if the records
    are for all groups.
    """
    return _note(_REDRIVEN, letters, base_offset, address)


def _note(key: str, sources: Sequence[int], base_offset: int, address: CopyAddress) -> dict[str, Note]:
    runs: list[list[int]] = []
    for source in sources:
        if runs and source == sum(runs[-1]):
            runs[-1][1] += 1
        else:
            runs.append([source, 1])
    value = b"".join(chain(map(_text, address), (_RUN.pack(*run) for run in runs)))
    return {f"{key}{base_offset}": Note(value, base_offset, base_offset + len(sources) - 1)}


def hidden_from(notes: Notes, group_id: str, first: int, end: int) -> Iterator[tuple[int, int]]:
    """Yields first and last offset of the copies in [first, end) that are for other groups."""
    own = _text(group_id)
    for key, note in notes.attached_in(first, end):
        if key.startswith(_KEY) and not note.value.startswith(own):
            yield note.first_offset, note.last_offset


def copies_in(notes: Notes, first: int, end: int) -> Iterator[tuple[int, int]]:
    """Yields first and last offset of the copies in [first, end); those of a redrive to a group twice."""
    for key, note in notes.attached_in(first, end):
        if key.startswith((_KEY, _REDRIVEN)):
            yield note.first_offset, note.last_offset


def copied(
    notes: Iterable[tuple[str, Note]], group_id: str, request_id: str | None = None
) -> list[CopiedRun]:
    """Returns the records that were copied for a group, by one request or by any; in the order of notes."""
    return _runs_of(notes, _KEY, group_id, request_id)


def redriven(notes: Iterable[tuple[str, Note]], address: CopyAddress) -> list[CopiedRun]:
    """Returns the letters whose records one redrive has appended."""
    return _runs_of(notes, _REDRIVEN, *address)


def _runs_of(
    notes: Iterable[tuple[str, Note]], prefix: str, group_id: str, request_id: str | None
) -> list[CopiedRun]:
    own, request = _text(group_id), b"" if request_id is None else _text(request_id)
    return [
        run
        for key, note in notes
        if key.startswith(prefix) and note.value.startswith(own + request)
        for run in _runs(note)
    ]


def find_copy(runs: Iterable[CopiedRun], offset: int) -> int | None:
    """Returns the offset of the newest copy of a record; None without one."""
    copies = (run.copy_of(offset) for run in runs if run.first <= offset <= run.last)
    return max(copies, default=None)


def check_not_copied(notes: Iterable[tuple[str, Note]], sources: Sequence[int], address: CopyAddress) -> None:
    """Raises AlreadyCopiedError if the request of the address copied one of the records before."""
    runs = copied(notes, *address)
    if any(find_copy(runs, source) is not None for source in sources):
        raise AlreadyCopiedError(ErrorCode.DUPLICATE_RESOURCE, "The request has copied these records.")


def check_not_redriven(
    notes: Iterable[tuple[str, Note]], letters: Sequence[int], address: CopyAddress
) -> None:
    """Raises AlreadyCopiedError if the redrive of the address appended the record of one of the letters."""
    runs = redriven(notes, address)
    if any(find_copy(runs, letter) is not None for letter in letters):
        raise AlreadyCopiedError(ErrorCode.DUPLICATE_RESOURCE, "The records of these letters are appended.")


def _text(text: str) -> bytes:
    data = text.encode()
    return _LENGTH.pack(len(data)) + data


def _runs(note: Note) -> Iterator[CopiedRun]:
    value, position, copy = note.value, 0, note.first_offset
    for _ in CopyAddress._fields:
        position += _LENGTH.size + _LENGTH.unpack_from(value, position)[0]
    for source, number in _RUN.iter_unpack(value[position:]):
        yield CopiedRun(source, source + number - 1, copy)
        copy += number
