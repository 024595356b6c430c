"""Archiving records: failed records that wait until their dead letters are written.

They hold the start offset, are not delivered, and have no lock. A dead letter is written for a record only
after the state ARCHIVING is durable: a next leader that did not load it would deliver the record again. The
record becomes ARCHIVED in memory once its letter is written. That is written to the state later, as often as
necessary. A next leader that still loads ARCHIVING requests the letter again, so the writer of letters needs
`stored_ranges` to recognise a repetition.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sharebroker_protocol.model import Disposition, FailureNote, RecordState, StateBatch
from sharebroker_server.offset_spans import joined
from sharebroker_server.share_partition_leader.core.events import ArchivingRecords
from sharebroker_server.share_partition_leader.core.in_flight import InFlight
from sharebroker_server.share_partition_leader.core.runs import ARCHIVING, Run, Transition
from sharebroker_server.share_partition_leader.core.transitions import RecordEvent


def requested_letters(in_flight: InFlight, limit: int, delivery_count_limit: int) -> list[ArchivingRecords]:
    """The archiving records whose state is durable, by offset; at most `limit` offsets."""
    found: list[ArchivingRecords] = []
    if not in_flight.archiving:
        return found
    for run in in_flight.archiving_from(in_flight.start):
        if limit <= 0:
            break
        if run.stored:
            last = min(run.last, run.first + limit - 1)
            limit -= last - run.first + 1
            found.append(_described(run, last, delivery_count_limit))
    return found


def _described(run: Run, last: int, delivery_count_limit: int) -> ArchivingRecords:
    count, failure = run.delivery_count, run.failure
    if failure is None:
        # Stored by other software, without the failure: Kafka infers it in this way.
        exhausted = count >= delivery_count_limit
        failure = FailureNote(Disposition.EXHAUSTED if exhausted else Disposition.REJECTED)
    if failure.disposition == Disposition.EXPIRED:
        count -= 1  # the acquisition at which the record was found to be expired
    return ArchivingRecords(
        run.first, last, count, failure.disposition, failure.reason, failure.time_ms, failure.member_id
    )


def stored_ranges(in_flight: InFlight, ended: Iterable[StateBatch]) -> list[tuple[int, int]]:
    """The offsets that a next leader may load as archiving; those of `ended` are archived in memory only."""
    ranges = [(batch.first, batch.last) for batch in ended]
    if in_flight.archiving:
        ranges += [(run.first, run.last) for run in in_flight.archiving_from(in_flight.start)]
    return joined(sorted(ranges))


def letters_written(in_flight: InFlight, ranges: Sequence[tuple[int, int]]) -> Transition:
    """Archives the archiving records of the ranges in memory; returns the transition that stores it."""
    transition = Transition(letters=True)
    for first, last in ranges:
        ended: list[StateBatch] = []
        for run in in_flight.archiving_from(first):
            if run.first > last:
                break
            start, end = max(run.first, first), min(run.last, last)
            ended.append(StateBatch(start, end, RecordState.ARCHIVED, run.delivery_count))
        for batch in ended:
            in_flight.archive(batch.first, batch.last, RecordEvent.LETTER_WRITTEN)
        transition.batches += ended
    return transition


def note_failure(in_flight: InFlight, first: int, last: int, failure: FailureNote) -> None:
    """Describes archiving records that are not stored yet."""
    described = _separated(in_flight, first, last)
    for run in described:
        run.failure = failure
    in_flight.coalesce(described)


def mark_stored(in_flight: InFlight, transitions: Iterable[Transition]) -> None:
    """Marks archiving records as stored whose write, that of the transitions, is durable."""
    for transition in transitions:
        for batch in transition.batches:
            if batch.state == ARCHIVING:
                stored = _separated(in_flight, batch.first, batch.last)
                for run in stored:
                    run.stored = True
                in_flight.coalesce(stored)


def _separated(in_flight: InFlight, first: int, last: int) -> list[Run]:
    """Returns the archiving runs in first..last, after splitting those that extend beyond."""
    runs, found = in_flight.runs, []
    index = in_flight.locate(first)
    while index < len(runs) and runs[index].first <= last:
        if runs[index].state is ARCHIVING:
            index = in_flight.split_at(index, first, last)
            found.append(runs[index])
        index += 1
    return found
