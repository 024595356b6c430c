"""Pieces: the offset ranges of requests about planned batches, validated and sorted by partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Final, NamedTuple

from sharebroker_protocol.errors import invalid_field
from sharebroker_protocol.gateway.v1 import plan_pb2 as pb
from sharebroker_protocol.model import AcquiredRange, TopicIdPartition
from sharebroker_server.gateway.consume.topic_acquire import TopicFilter
from sharebroker_server.gateway.core.validation import check_bounds
from sharebroker_server.leader_calls.values import AcquireResult
from sharebroker_server.offset_spans import split_by_spans

ACCEPT: Final = 1
RELEASE: Final = 2
REJECT: Final = 3
RENEW: Final = 4


class TypedRange(NamedTuple):
    """Offsets first..last of a partition, and the acknowledge type for them."""

    topic: str
    partition: int
    first: int
    last: int
    kind: int


Partition = tuple[str, int]
"""A topic name and a partition number."""


def by_partition(
    pieces: Sequence[TypedRange], field: str, most: int
) -> Mapping[Partition, Sequence[TypedRange]]:
    """The pieces of each partition, ascending.

    Raises KafkaError INVALID_REQUEST for more than `most` pieces, descending or overlapping offsets, a
    negative partition or offset, and an invalid acknowledge type.
    """
    check_bounds(field, len(pieces), 0, most)
    found: dict[Partition, list[TypedRange]] = {}
    for index, piece in enumerate(pieces):
        where = f"{field}[{index}]"
        if piece.partition < 0 or not 0 <= piece.first <= piece.last:
            raise invalid_field(
                where, f"Offsets {piece.first} to {piece.last} of partition {piece.partition} are not valid."
            )
        if piece.kind not in (ACCEPT, RELEASE, REJECT, RENEW):
            raise invalid_field(f"{where}.type", f"{piece.kind} is not a valid acknowledge type of a batch.")
        found.setdefault((piece.topic, piece.partition), []).append(piece)
    for partition, sorted_pieces in found.items():
        sorted_pieces.sort(key=lambda piece: piece.first)
        _check_disjoint(partition, sorted_pieces, field)
    return found


def _check_disjoint(partition: Partition, pieces: Sequence[TypedRange], field: str) -> None:
    end = -1
    for piece in pieces:
        if piece.first <= end:
            raise invalid_field(field, f"Offset {piece.first} of {partition[0]}-{partition[1]} occurs twice.")
        end = piece.last


def with_staged(
    pieces: Mapping[Partition, Sequence[TypedRange]], staged: Sequence[TypedRange], *, applied: bool
) -> Mapping[Partition, Sequence[TypedRange]]:
    """Pieces by partition; staged verdicts replace the type of the offsets that they name.

    `applied`: an earlier call applied the verdicts. Records that it released are left out, because the next
    batch may contain them.
    """
    by_part: dict[Partition, list[TypedRange]] = {}
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


def within(pieces: Iterable[TypedRange], spans: Sequence[tuple[int, int]]) -> list[TypedRange]:
    """The parts of ascending pieces of one partition that lie in ascending offset spans."""
    return [
        piece._replace(first=max(piece.first, first), last=min(piece.last, last))
        for piece in pieces
        for first, last in spans
        if piece.first <= last and first <= piece.last
    ]


Held = dict[Partition, Sequence[AcquiredRange]]


def committed_pieces(request: pb.PlanRequest | pb.CommitRequest) -> list[TypedRange]:
    """The pieces of a commit: verdicts and accepted columns."""
    return [*verdict_pieces(request.commit), *column_pieces(request.accepted, "accepted", ACCEPT)]


def verdict_pieces(verdicts: Iterable[pb.PlanVerdict], field: str = "commit") -> list[TypedRange]:
    """The pieces of verdicts. Raises INVALID_REQUEST for a renewal."""
    pieces = [piece_of(verdict.range, verdict.type) for verdict in verdicts]
    if any(piece.kind == RENEW for piece in pieces):
        raise invalid_field(field, "A committed batch cannot be renewed.")
    return pieces


def piece_of(span: pb.PlanRange, kind: int) -> TypedRange:
    """The piece of one range."""
    return TypedRange(span.topic, span.partition, span.first_offset, span.last_offset, kind)


def column_pieces(columns: Iterable[pb.PlanColumns], field: str, kind: int) -> list[TypedRange]:
    """The pieces of columns. Raises INVALID_REQUEST if they differ in length."""
    found: list[TypedRange] = []
    for index, column in enumerate(columns):
        partitions, firsts, lasts = column.partitions, column.first_offsets, column.last_offsets
        if not len(partitions) == len(firsts) == len(lasts):
            raise invalid_field(f"{field}[{index}]", "The columns differ in length.")
        found.extend(map(TypedRange, repeat(column.topic), partitions, firsts, lasts, repeat(kind)))
    return found


def plan_range(topic: str, partition: int, first: int, last: int) -> pb.PlanRange:
    """A range of offsets as a message."""
    return pb.PlanRange(topic=topic, partition=partition, first_offset=first, last_offset=last)


def held_of(topics: TopicFilter, acquired: Mapping[TopicIdPartition, AcquireResult]) -> Held:
    """Acquired ranges in the form of held ones."""
    names = {topic.topic_id: topic.name for topic, _ in topics}
    return {(names[part.topic_id], part.partition): result.acquired for part, result in acquired.items()}


def planned_ranges(held: Held) -> list[pb.PlannedRange]:
    """Held ranges as messages."""
    return [
        pb.PlannedRange(
            range=plan_range(topic, partition, first, last),
            delivery_count=count,
            lock_deadline_ms=round(deadline * 1000),
        )
        for (topic, partition), runs in sorted(held.items())
        for first, last, count, _, deadline in runs
    ]


def planned_columns(held: Held) -> list[pb.PlannedColumns]:
    """Held ranges as columns by topic, at a tenth of the cost."""
    topics: dict[str, list[tuple[int, int, int, int, int]]] = {}
    for (topic, partition), runs in sorted(held.items()):
        rows = topics.setdefault(topic, []) if runs else []
        for first, last, count, _, deadline in runs:
            rows.append((partition, first, last, count, round(deadline * 1000)))
    return [
        pb.PlannedColumns(
            topic=topic,
            partitions=partitions,
            first_offsets=firsts,
            last_offsets=lasts,
            delivery_counts=counts,
            lock_deadlines_ms=deadlines,
        )
        for topic, rows in topics.items()
        for partitions, firsts, lasts, counts, deadlines in [zip(*rows, strict=True)]
    ]
