"""What is asked of a planned session, by partition; checked before anything is done for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from sharebroker_server.gateway.core.validation import check_bounds, refused
from sharebroker_server.offset_spans import split_by_spans

ACCEPT: Final = 1
RELEASE: Final = 2
REJECT: Final = 3
RENEW: Final = 4


class Piece(NamedTuple):
    """Offsets first..last of a topic's partition, and what is said of them (an AcknowledgeType)."""

    topic: str
    partition: int
    first: int
    last: int
    kind: int


Partition = tuple[str, int]
"""A topic's name, and a partition of it."""


def by_partition(pieces: Sequence[Piece], field: str, most: int) -> Mapping[Partition, Sequence[Piece]]:
    """The pieces of each partition, ascending.

    Raises KafkaError INVALID_REQUEST for more than `most`, for offsets that run backwards or overlap, for a
    negative partition or offset, and for a kind that cannot be said of a batch.
    """
    check_bounds(field, len(pieces), 0, most)
    found: dict[Partition, list[Piece]] = {}
    for index, piece in enumerate(pieces):
        where = f"{field}[{index}]"
        if piece.partition < 0 or not 0 <= piece.first <= piece.last:
            raise refused(
                where, f"Offsets {piece.first} to {piece.last} of partition {piece.partition} cannot be."
            )
        if piece.kind not in (ACCEPT, RELEASE, REJECT, RENEW):
            raise refused(f"{where}.type", f"{piece.kind} cannot be said of a batch.")
        found.setdefault((piece.topic, piece.partition), []).append(piece)
    for partition, some in found.items():
        some.sort(key=lambda piece: piece.first)
        _check_apart(partition, some, field)
    return found


def _check_apart(partition: Partition, pieces: Sequence[Piece], field: str) -> None:
    end = -1
    for piece in pieces:
        if piece.first <= end:
            raise refused(field, f"Offset {piece.first} of {partition[0]}-{partition[1]} is named twice.")
        end = piece.last


def with_staged(
    pieces: Mapping[Partition, Sequence[Piece]], staged: Sequence[Piece], *, settled: bool
) -> Mapping[Partition, Sequence[Piece]]:
    """Pieces by partition, with what was staged in their place where both speak of an offset.

    `settled`: it was carried out before. What was released then is not spoken of again: it may be in the
    next batch.
    """
    by_part: dict[Partition, list[Piece]] = {}
    for one in sorted(staged):
        by_part.setdefault((one.topic, one.partition), []).append(one)
    found = dict(pieces)
    for partition in by_part.keys() & pieces.keys():
        over = by_part[partition]
        spans = [(one.first, one.last) for one in over]
        found[partition] = [
            piece._replace(first=first, last=last, kind=piece.kind if index is None else over[index].kind)
            for piece in pieces[partition]
            for first, last, index in split_by_spans(piece.first, piece.last, spans)
            if index is None or not (settled and over[index].kind == RELEASE)
        ]
    return found


def still(pieces: Iterable[Piece], spans: Sequence[tuple[int, int]]) -> list[Piece]:
    """The parts of ascending pieces of one partition that lie in ascending spans of offsets."""
    return [
        piece._replace(first=max(piece.first, first), last=min(piece.last, last))
        for piece in pieces
        for first, last in spans
        if piece.first <= last and first <= piece.last
    ]
