"""The offset ranges of requests about planned batches, by partition and validated."""

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
    """Offsets first..last of a partition, and the acknowledge type for them."""

    topic: str
    partition: int
    first: int
    last: int
    kind: int


Partition = tuple[str, int]
"""A topic name and a partition number."""


def by_partition(pieces: Sequence[Piece], field: str, most: int) -> Mapping[Partition, Sequence[Piece]]:
    """The pieces of each partition, ascending.

    Raises KafkaError INVALID_REQUEST for more than `most` pieces, descending or overlapping offsets, a
    negative partition or offset, and an invalid acknowledge type.
    """
    check_bounds(field, len(pieces), 0, most)
    found: dict[Partition, list[Piece]] = {}
    for index, piece in enumerate(pieces):
        where = f"{field}[{index}]"
        if piece.partition < 0 or not 0 <= piece.first <= piece.last:
            raise refused(
                where, f"Offsets {piece.first} to {piece.last} of partition {piece.partition} are not valid."
            )
        if piece.kind not in (ACCEPT, RELEASE, REJECT, RENEW):
            raise refused(f"{where}.type", f"{piece.kind} is not a valid acknowledge type of a batch.")
        found.setdefault((piece.topic, piece.partition), []).append(piece)
    for partition, sorted_pieces in found.items():
        sorted_pieces.sort(key=lambda piece: piece.first)
        _check_disjoint(partition, sorted_pieces, field)
    return found


def _check_disjoint(partition: Partition, pieces: Sequence[Piece], field: str) -> None:
    end = -1
    for piece in pieces:
        if piece.first <= end:
            raise refused(field, f"Offset {piece.first} of {partition[0]}-{partition[1]} occurs twice.")
        end = piece.last


def with_staged(
    pieces: Mapping[Partition, Sequence[Piece]], staged: Sequence[Piece], *, applied: bool
) -> Mapping[Partition, Sequence[Piece]]:
    """Pieces by partition; staged verdicts replace the type of the offsets that they name.

    `applied`: an earlier call applied the verdicts. Records that it released are left out, because the next
    batch may contain them.
    """
    by_part: dict[Partition, list[Piece]] = {}
    for verdict in sorted(staged):
        by_part.setdefault((verdict.topic, verdict.partition), []).append(verdict)
    found = dict(pieces)
    for partition in by_part.keys() & pieces.keys():
        verdicts = by_part[partition]
        spans = [(verdict.first, verdict.last) for verdict in verdicts]
        found[partition] = [
            piece._replace(first=first, last=last, kind=piece.kind if index is None else verdicts[index].kind)
            for piece in pieces[partition]
            for first, last, index in split_by_spans(piece.first, piece.last, spans)
            if index is None or not (applied and verdicts[index].kind == RELEASE)
        ]
    return found


def within(pieces: Iterable[Piece], spans: Sequence[tuple[int, int]]) -> list[Piece]:
    """The parts of ascending pieces of one partition that lie in ascending offset spans."""
    return [
        piece._replace(first=max(piece.first, first), last=min(piece.last, last))
        for piece in pieces
        for first, last in spans
        if piece.first <= last and first <= piece.last
    ]
