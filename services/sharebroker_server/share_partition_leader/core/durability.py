"""What is written to the share coordinator, and what becomes of a change when its write is answered.

A write counts as finished only what is durable or part of itself: a change that waits for another write may
still be rolled back, so the SPSO that is sent never passes it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sharebroker_protocol.model import StateBatch, StateWrite
from sharebroker_server.share_partition_leader.core.in_flight import (
    ACKNOWLEDGED,
    AVAILABLE,
    DELAYED_RELEASE,
    InFlight,
    Lock,
    Run,
    Transition,
)
from sharebroker_server.share_partition_leader.core.values import Completed, LoadedState, LostLock


def state_batches(changes: Iterable[Run | LostLock], to_target: bool) -> list[StateBatch]:
    """State batches of ascending changes; neighbours of equal state and delivery count are one."""
    batches: list[StateBatch] = []
    for change in changes:
        state = change.target if to_target and isinstance(change, Run) else change.state
        _extend(batches, StateBatch(change.first, change.last, state, change.delivery_count))
    return batches


def _extend(batches: list[StateBatch], batch: StateBatch) -> None:
    first, last, state, delivery_count = batch
    if batches:
        previous = batches[-1]
        if (
            previous.last + 1 == first
            and previous.state == state
            and previous.delivery_count == delivery_count
        ):
            batches[-1] = StateBatch(previous.first, last, state, delivery_count)
            return
    batches.append(batch)


def build_write(in_flight: InFlight, loaded: LoadedState, transitions: Collection[Transition]) -> StateWrite:
    """Build the write that makes `transitions` durable: SPSO after them, without what it passed."""
    start, passed = _start_offset_after(in_flight, set(transitions))
    finished = sum(
        run.size
        for transition in transitions
        for run in transition.runs
        if run.pending is transition and run.target >= ACKNOWLEDGED
    )
    batches: list[StateBatch] = []
    for batch in sorted(batch for transition in transitions for batch in transition.batches):
        if batch.last >= start:
            _extend(batches, batch if batch.first >= start else batch._replace(first=start))
    return StateWrite(
        loaded.state_epoch,
        loaded.leader_epoch,
        start,
        in_flight.complete_count + finished - passed,
        tuple(batches),
    )


def _start_offset_after(in_flight: InFlight, transitions: set[Transition]) -> tuple[int, int]:
    """SPSO once `transitions` are durable, and how many terminal offsets it passes on its way."""
    passed = 0
    for run in in_flight.runs:
        if run.pending is not None:
            if run.target < ACKNOWLEDGED or run.pending not in transitions:
                return run.first, passed
        elif run.state < ACKNOWLEDGED:
            return run.first, passed
        passed += run.size
    return in_flight.after_end, passed


def commit(in_flight: InFlight, transitions: Iterable[Transition]) -> Completed:
    """Lets written transitions take effect."""
    acknowledged = released = archived = 0
    for transition in transitions:
        later = None if transition.until is None else Lock(DELAYED_RELEASE, 0, transition.until)
        for run in transition.runs:
            if run.pending is not transition:
                continue
            target = run.target
            if target is AVAILABLE:
                if later is not None:
                    run.pending, run.lock = None, later
                    continue
                in_flight.mark_available(run.first)
                released += run.size
            elif target is ACKNOWLEDGED:
                acknowledged += run.size
            else:
                archived += run.size
            run.unlock(target)
    in_flight.complete_count += acknowledged + archived
    moved = in_flight.advance()
    for transition in transitions:
        in_flight.coalesce(transition.runs)
    return Completed(moved or released > 0, acknowledged, released, archived)


def roll_back(in_flight: InFlight, transitions: Iterable[Transition]) -> list[float]:
    """Forget transitions whose write failed; return the deadlines of the locks that count again.

    Delivery counts stay as they are.
    """
    deadlines = []
    for transition in transitions:
        undone = [run for run in transition.runs if run.pending is transition]
        for run in undone:
            run.pending = None
        deadlines += [run.lock.deadline for run in undone if run.lock is not None]
        in_flight.coalesce(undone)
    return deadlines
