"""Translates the messages of planned batches to pieces of partitions and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat

from sharebroker_protocol.gateway.v1 import plan_pb2 as pb
from sharebroker_protocol.model import AcquiredRange, TopicIdPartition
from sharebroker_server.gateway.consume.topic_acquire import TopicFilter
from sharebroker_server.gateway.core.planning import ACCEPT, RENEW, Partition, Piece
from sharebroker_server.gateway.core.validation import refused
from sharebroker_server.leader_calls.values import AcquireResult

Held = dict[Partition, Sequence[AcquiredRange]]


def committed_pieces(request: pb.PlanRequest | pb.CommitRequest) -> list[Piece]:
    """The pieces of a commit: verdicts and accepted columns."""
    return [*verdict_pieces(request.commit), *column_pieces(request.accepted, "accepted", ACCEPT)]


def verdict_pieces(verdicts: Iterable[pb.PlanVerdict], field: str = "commit") -> list[Piece]:
    """The pieces of verdicts. Raises INVALID_REQUEST for a renewal."""
    pieces = [piece_of(verdict.range, verdict.type) for verdict in verdicts]
    if any(piece.kind == RENEW for piece in pieces):
        raise refused(field, "A committed batch cannot be renewed.")
    return pieces


def piece_of(span: pb.PlanRange, kind: int) -> Piece:
    """The piece of one range."""
    return Piece(span.topic, span.partition, span.first_offset, span.last_offset, kind)


def column_pieces(columns: Iterable[pb.PlanColumns], field: str, kind: int) -> list[Piece]:
    """The pieces of columns. Raises INVALID_REQUEST if they differ in length."""
    found: list[Piece] = []
    for index, column in enumerate(columns):
        partitions, firsts, lasts = column.partitions, column.first_offsets, column.last_offsets
        if not len(partitions) == len(firsts) == len(lasts):
            raise refused(f"{field}[{index}]", "The columns differ in length.")
        found.extend(map(Piece, repeat(column.topic), partitions, firsts, lasts, repeat(kind)))
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
