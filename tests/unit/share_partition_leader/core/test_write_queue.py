"""Transitions on their way to the share coordinator: one write in flight, retries, rejection."""

from __future__ import annotations

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import RecordState, StateBatch
from sharebroker_server.share_partition_leader.core.effects import Effects
from sharebroker_server.share_partition_leader.core.in_flight import Run, Transition
from sharebroker_server.share_partition_leader.core.write_queue import RETRY_INTERVAL, WriteQueue

ERROR = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)


def transition(number: int, *, runs: bool = False, batches: bool = True) -> Transition:
    made = Transition(number)
    if runs:
        made.runs.append(Run(0, 0, RecordState.ACQUIRED, 1, None))
    if batches:
        made.batches.append(StateBatch(0, 0, 0, 1))
    return made


def test_the_first_transition_asks_for_a_write() -> None:
    queue, effects = WriteQueue(), Effects()
    first, second = transition(1), transition(2)
    queue.add(first, None, effects)
    assert (effects.write_due, effects.transitions, queue.busy) == (True, (first,), True)
    later = Effects()
    queue.add(second, None, later)
    assert (later.write_due, queue.take()) == (False, [first, second])


def test_completion_asks_for_the_next_write_while_transitions_wait() -> None:
    queue = WriteQueue()
    queue.add(transition(1), None, Effects())
    queue.take()
    queue.add(transition(2), None, Effects())
    effects = Effects()
    assert [item.id for item in queue.complete(None, effects)] == [1]
    assert (effects.write_due, queue.busy) == (True, True)
    queue.take()
    queue.complete(None, effects)
    assert (effects.write_due, queue.busy, queue.idle) == (False, False, True)


def test_waiting_replies_are_rejected_and_the_write_is_empty() -> None:
    queue, effects = WriteQueue(), Effects()
    replies: list[KafkaError | None] = []
    queue.add(transition(1), replies.append, Effects())
    queue.reject_waiting(ERROR, effects)
    assert [error for _, error in effects.replies] == [ERROR]
    assert (queue.take(), queue.busy) == ([], False)


def test_only_changes_without_runs_are_retried() -> None:
    queue, effects = WriteQueue(), Effects()
    lost = transition(1)
    queue.add_retries([lost, transition(2, runs=True), transition(3, batches=False)], 10.0)
    assert (queue.retry_at, queue.idle) == (10.0 + RETRY_INTERVAL, False)
    queue.add_retries([transition(4)], 11.0)
    assert queue.retry_at == 10.0 + RETRY_INTERVAL  # the first failure sets the time
    queue.flush_retries(effects)
    assert [item.id for item in effects.transitions] == [1, 4]
    assert queue.idle is False
    assert not queue.retry_at


def test_nothing_to_retry_sets_no_time() -> None:
    queue = WriteQueue()
    queue.add_retries([transition(1, runs=True)], 10.0)
    assert (queue.retry_at, queue.idle) == (None, True)
