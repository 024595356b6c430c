"""Every arrow of the state diagram of seed 003, by what causes it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sharebroker_protocol.errors import ErrorCode, IllegalStateError, KafkaError
from sharebroker_protocol.membership.heartbeat import HeartbeatResponse
from sharebroker_protocol.membership.machine import Membership, MembershipSettings
from sharebroker_protocol.membership.states import TRANSITIONS, MemberEvent, MemberState, after
from sharebroker_protocol.model import TopicIdPartition

A = frozenset({TopicIdPartition("a", 0), TopicIdPartition("a", 1)})
B = frozenset({TopicIdPartition("a", 1), TopicIdPartition("a", 2)})
TOPICS = frozenset({"flights"})
FENCED = KafkaError(ErrorCode.FENCED_MEMBER_EPOCH)
FATAL = KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
AWAY = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)


def answer(epoch: int, assignment: frozenset[TopicIdPartition] | None = None) -> HeartbeatResponse:
    return HeartbeatResponse(epoch, 5.0, assignment)


def unjoined(listener: bool = True) -> Membership:
    member = Membership(MembershipSettings(rack_id="rack", has_listener=listener))
    member.subscribe(TOPICS)
    return member


def exchange(member: Membership, response: HeartbeatResponse, now: float) -> None:
    assert member.heartbeat(now) is not None
    member.answered(response, now)


def stable(listener: bool = True) -> Membership:
    member = unjoined(listener)
    exchange(member, answer(1), 0.0)
    return member


def reconciling() -> Membership:
    member = stable()
    exchange(member, answer(2, A), 5.0)
    return member


def reconciliation_complete() -> Membership:
    member = reconciling()
    run_callback(member)
    return member


def releasing() -> Membership:
    member = reconciliation_complete()
    assert member.heartbeat(6.0) is not None
    member.failed(FENCED, 6.0)
    return member


def releasing_complete() -> Membership:
    member = releasing()
    run_callback(member)
    return member


def leaving() -> Membership:
    member = stable()
    member.leave()
    return member


def left() -> Membership:
    member = leaving()
    assert member.heartbeat(6.0) is not None
    return member


def fatal() -> Membership:
    member = stable()
    member.fail(FATAL)
    return member


def run_callback(member: Membership) -> None:
    callback = member.next_callback()
    assert callback is not None
    member.callback_completed(callback)


MAKERS: dict[MemberState, Callable[[], Membership]] = {
    MemberState.UNJOINED: unjoined,
    MemberState.STABLE: stable,
    MemberState.RECONCILING: reconciling,
    MemberState.RECONCILIATION_COMPLETE: reconciliation_complete,
    MemberState.RELEASING_ASSIGNMENT: releasing,
    MemberState.RELEASING_ASSIGNMENT_COMPLETE: releasing_complete,
    MemberState.LEAVING: leaving,
    MemberState.LEFT: left,
    MemberState.FATAL: fatal,
}


@pytest.mark.parametrize("state", MemberState)
def test_every_state_can_be_reached(state: MemberState) -> None:
    assert MAKERS[state]().state is state


def retry_join(member: Membership) -> None:
    assert member.heartbeat(0.0) is not None
    member.failed(AWAY, 0.0)
    request = member.heartbeat(0.1)
    assert request is not None
    assert (request.member_epoch, request.topics, request.rack_id) == (0, TOPICS, "rack")


def join(member: Membership) -> None:
    exchange(member, answer(1), 0.0)
    assert member.member_epoch == 1


def refuse(member: Membership) -> None:
    assert member.heartbeat(100.0) is not None
    member.failed(FATAL, 100.0)
    assert member.error is FATAL


def assign(member: Membership) -> None:
    exchange(member, answer(2, A), 100.0)
    callback = member.next_callback()
    assert callback is not None
    assert callback.partitions == A


def fence(member: Membership) -> None:
    assert member.heartbeat(1000.0) is not None
    member.failed(FENCED, 1000.0)
    assert member.member_epoch == 0


def beat(member: Membership) -> None:
    exchange(member, answer(member.member_epoch), 100.0)


def beat_then_fence(member: Membership) -> None:
    beat(member)
    assert member.state is MemberState.STABLE
    fence(member)


def say_goodbye(member: Membership) -> None:
    request = member.heartbeat(5.0)
    assert request is not None
    assert request.member_epoch == -1


def acknowledge_assignment(member: Membership) -> None:
    assert member.heartbeat(5.0) is not None  # not only at 10.0, when the interval ends
    assert member.assigned == A
    assert member.next_deadline() is None
    member.answered(answer(2), 5.5)
    assert member.next_deadline() == 10.5  # the interval timer was reset


def join_out_of_interval(member: Membership) -> None:
    request = member.heartbeat(6.0)
    assert request is not None
    assert (request.member_epoch, request.topics) == (0, TOPICS)


def fail_elsewhere(member: Membership) -> None:
    member.fail(FATAL)
    assert member.error is FATAL


Arrow = tuple[str, MemberState, Callable[[Membership], None], MemberState]
_S = MemberState
ARROWS: list[Arrow] = [
    ("UNJOINED ---> UNJOINED : Heartbeat on retries", _S.UNJOINED, retry_join, _S.UNJOINED),
    ("UNJOINED ---> STABLE : Heartbeat, epoch = 0", _S.UNJOINED, join, _S.STABLE),
    ("UNJOINED ---> FATAL", _S.UNJOINED, refuse, _S.FATAL),
    ("STABLE ---> RECONCILING : new assignment received", _S.STABLE, assign, _S.RECONCILING),
    (
        "STABLE ---> RELEASING_ASSIGNMENT : on HB fencing error, reset epoch",
        _S.RECONCILIATION_COMPLETE,
        beat_then_fence,
        _S.RELEASING_ASSIGNMENT,
    ),
    ("STABLE ---> FATAL", _S.STABLE, refuse, _S.FATAL),
    ("STABLE ---> STABLE : Heartbeat", _S.STABLE, beat, _S.STABLE),
    ("RECONCILING ---> RECONCILING : Heartbeat", _S.RECONCILING, beat, _S.RECONCILING),
    (
        "RECONCILING ---> RECONCILIATION_COMPLETE : callback completed",
        _S.RECONCILING,
        run_callback,
        _S.RECONCILIATION_COMPLETE,
    ),
    (
        "RECONCILIATION_COMPLETE ---> STABLE : Send heartbeat, reset interval timer",
        _S.RECONCILIATION_COMPLETE,
        acknowledge_assignment,
        _S.STABLE,
    ),
    ("RECONCILING ---> FATAL", _S.RECONCILING, refuse, _S.FATAL),
    (
        "RELEASING_ASSIGNMENT ---> RELEASING_ASSIGNMENT_COMPLETE : onLost callback completed",
        _S.RELEASING_ASSIGNMENT,
        run_callback,
        _S.RELEASING_ASSIGNMENT_COMPLETE,
    ),
    (
        "RELEASING_ASSIGNMENT_COMPLETE ---> UNJOINED : Send out-of-interval HB",
        _S.RELEASING_ASSIGNMENT_COMPLETE,
        join_out_of_interval,
        _S.UNJOINED,
    ),
    ("RELEASING_ASSIGNMENT ---> FATAL", _S.RELEASING_ASSIGNMENT, fail_elsewhere, _S.FATAL),
    # Ours, see membership/states.py
    ("RECONCILING ---> RELEASING_ASSIGNMENT", _S.RECONCILING, fence, _S.RELEASING_ASSIGNMENT_COMPLETE),
    ("STABLE ---> LEAVING", _S.STABLE, Membership.leave, _S.LEAVING),
    ("RELEASING_ASSIGNMENT ---> LEFT", _S.RELEASING_ASSIGNMENT, Membership.leave, _S.LEFT),
    ("LEAVING ---> LEFT", _S.LEAVING, say_goodbye, _S.LEFT),
    ("LEFT ---> UNJOINED", _S.LEFT, lambda member: member.subscribe(TOPICS), _S.UNJOINED),
]


@pytest.mark.parametrize(("start", "cause", "end"), [pytest.param(*a[1:], id=a[0]) for a in ARROWS])
def test_transition(start: MemberState, cause: Callable[[Membership], None], end: MemberState) -> None:
    member = MAKERS[start]()
    cause(member)
    assert member.state is end


def test_fatal_has_no_transitions() -> None:
    member = fatal()
    assert member.heartbeat(1e9) is None
    assert member.assigned == frozenset()
    with pytest.raises(KafkaError) as caught:
        member.subscribe(TOPICS)
    assert caught.value is FATAL
    member.leave()
    member.fail(AWAY)
    assert (member.state, member.error) == (MemberState.FATAL, FATAL)


@pytest.mark.parametrize("state", MemberState)
@pytest.mark.parametrize("event", MemberEvent)
def test_unlisted_transition_is_illegal(state: MemberState, event: MemberEvent) -> None:
    if (state, event) in TRANSITIONS:
        assert isinstance(after(state, event), MemberState)
    else:
        with pytest.raises(IllegalStateError, match=event.name):
            after(state, event)
