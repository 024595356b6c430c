"""The rules by which a dead letter topic has each letter once (decision 0103).

The partition of the dead letter topic stores, per share-partition, which letters it has and which may be sent
again: the *written* offsets. A request names the offsets of its letters and all offsets that may be sent
again. Letters that are written already are left out; written offsets that cannot be sent again are removed.

The leader of the source partition is the only sender. Its leader epoch increases with each leader, and the
sequence of its requests with each request. A request of an earlier leader, or one that was sent before the
last change of the note, is rejected: it may arrive after its letters were removed from the note.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from sharebroker_protocol.errors import ErrorCode, KafkaError, invalid_field
from sharebroker_server.offset_spans import intersection, joined

MAX_LETTERS: Final = 1_000
"""The number of letters in one request."""

MAX_RANGES: Final = 20_000
"""The number of separate ranges of offsets that may be sent again, of one share-partition.

It is twice the limit of archiving records, which members that hold records can exceed.
"""

NOTE_PREFIX: Final = "dlq:"
"""The first characters of the keys of these notes."""

Range = tuple[int, int]
"""First and last offset, inclusive."""


class LetterNote(NamedTuple):
    """The written offsets as ascending ranges, and the leader epoch and sequence of the last request that
    changed them.
    """

    leader_epoch: int = -1
    written: tuple[Range, ...] = ()
    sequence: int = 0


class PlannedLetters(NamedTuple):
    """The indexes of the letters to append, and the note to store with them."""

    indexes: Sequence[int]
    note: LetterNote


def note_key(group_id: str, topic_id: str, partition: int, state_epoch: int) -> str:
    """Returns the key of the note of a share-partition's letters.

    The state epoch of the failure is a part of it: records that fail again after their offsets were altered
    get new letters. An initialisation that keeps the state keeps the key.
    """
    return NOTE_PREFIX + "\0".join((group_id, topic_id, str(partition), str(state_epoch)))


def with_source_topic(key: str, ids: Mapping[str, str]) -> str:
    """Returns the key of a note, with the id that its source topic has after a copy; other keys unchanged.

    `ids` are the new ids by the former ones.
    """
    if not key.startswith(NOTE_PREFIX):
        return key
    group_id, topic_id, *rest = key.removeprefix(NOTE_PREFIX).split("\0")
    return NOTE_PREFIX + "\0".join((group_id, ids.get(topic_id, topic_id), *rest))


def check_request(offsets: Sequence[int], still_archiving: Sequence[Range]) -> None:
    """Raises INVALID_REQUEST unless offsets and ranges are valid, ascend and are not too many."""
    if len(offsets) > MAX_LETTERS:
        raise invalid_field("source_offsets", f"{len(offsets)} letters; {MAX_LETTERS} are allowed.")
    if not _ascends([(offset, offset) for offset in offsets]):
        raise invalid_field("source_offsets", "The offsets of letters are not ascending.")
    if not _ascends(still_archiving):
        raise invalid_field("still_archiving", "The ranges are not ascending.")
    if len(still_archiving) > MAX_RANGES:
        raise invalid_field("still_archiving", f"{len(still_archiving)} ranges; {MAX_RANGES} are allowed.")


def plan_letters(
    note: LetterNote,
    sent: tuple[int, int],
    offsets: Sequence[int],
    still_archiving: Sequence[Range],
) -> PlannedLetters:
    """Returns which letters of a request have to be appended, and the note after it.

    `sent`: leader epoch of the source partition and sequence of the request. The other arguments are
    those that `check_request` accepts. A request that changes no range leaves the note as it is.

    Raises:
        KafkaError: FENCED_LEADER_EPOCH if a later leader has sent letters; OUT_OF_ORDER_SEQUENCE_NUMBER if a
            later request has changed the note.
    """
    leader_epoch, sequence = sent
    if leader_epoch < note.leader_epoch:
        raise KafkaError(
            ErrorCode.FENCED_LEADER_EPOCH,
            f"Letters of leader epoch {note.leader_epoch} were appended; {leader_epoch} is older.",
        )
    if leader_epoch == note.leader_epoch and sequence < note.sequence:
        raise KafkaError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"Request {note.sequence} of this leader was applied; {sequence} is older.",
        )
    kept = list(intersection(note.written, still_archiving))
    known = _Ranges(note.written)
    indexes = [index for index, offset in enumerate(offsets) if offset not in known]
    new = [(offset, offset) for offset in offsets]
    written = union(kept, new)
    if (leader_epoch, written) == (note.leader_epoch, note.written):
        return PlannedLetters(indexes, note)
    return PlannedLetters(indexes, LetterNote(leader_epoch, written, sequence))


def union(first: Sequence[Range], second: Sequence[Range]) -> tuple[Range, ...]:
    """Returns the offsets of both as ascending ranges that do not touch."""
    return tuple(joined(sorted((*first, *second))))


def deltas(ranges: Iterable[Range]) -> Iterator[int]:
    """Yields two numbers per range: its start above the end of the one before, and its further offsets."""
    end = -1
    for first, last in ranges:
        yield first - end
        yield last - first
        end = last


def ranges_of(numbers: Sequence[int]) -> tuple[Range, ...]:
    """Returns the ranges of what `deltas` yielded. Raises ValueError for an odd number of them."""
    ranges: list[Range] = []
    end = -1
    for above, further in zip(numbers[::2], numbers[1::2], strict=True):
        ranges.append((end + above, end + above + further))
        end = ranges[-1][1]
    return tuple(ranges)


class _Ranges:
    """Looks offsets up that are requested in ascending order."""

    def __init__(self, ranges: Sequence[Range]) -> None:
        self._ranges = ranges
        self._index = 0

    def __contains__(self, offset: int) -> bool:
        ranges = self._ranges
        while self._index < len(ranges) and ranges[self._index][1] < offset:
            self._index += 1
        return self._index < len(ranges) and ranges[self._index][0] <= offset


def _ascends(ranges: Sequence[Range]) -> bool:
    end = -1
    for first, last in ranges:
        if first <= end or last < first:
            return False
        end = last
    return True
