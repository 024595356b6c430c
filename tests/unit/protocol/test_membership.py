"""Every arrow of the member's state diagram (Kafka: `MemberState`), with the event that causes it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sharebroker_protocol.errors import ErrorCode, IllegalStateError, KafkaError
from sharebroker_protocol.membership import (
    TRANSITIONS,
    HeartbeatRequest,
    HeartbeatResponse,
    MemberEvent,
    Membership,
    MembershipSettings,
    MemberState,
    Reaction,
    after,
    reaction_to,
)
from sharebroker_protocol.model import TopicIdPartition
from tests.testkit.tables import each

A = frozenset({TopicIdPartition("a", 0), TopicIdPartition("a", 1)})
B = frozenset({TopicIdPartition("a", 1), TopicIdPartition("a", 2)})
TOPICS = frozenset({"flights"})
FENCED = KafkaError(ErrorCode.FENCED_MEMBER_EPOCH)
FATAL = KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
AWAY = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)


def heartbeat_response(
    epoch: int, assignment: frozenset[TopicIdPartition] | None = None
) -> HeartbeatResponse:
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
    exchange(member, heartbeat_response(1), 0.0)
    return member


def reconciling() -> Membership:
    member = stable()
    exchange(member, heartbeat_response(2, A), 5.0)
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
    exchange(member, heartbeat_response(1), 0.0)
    assert member.member_epoch == 1


def refuse(member: Membership) -> None:
    assert member.heartbeat(100.0) is not None
    member.failed(FATAL, 100.0)
    assert member.error is FATAL


def assign(member: Membership) -> None:
    exchange(member, heartbeat_response(2, A), 100.0)
    callback = member.next_callback()
    assert callback is not None
    assert callback.partitions == A


def fence(member: Membership) -> None:
    assert member.heartbeat(1000.0) is not None
    member.failed(FENCED, 1000.0)
    assert member.member_epoch == 0


def beat(member: Membership) -> None:
    exchange(member, heartbeat_response(member.member_epoch), 100.0)


def beat_then_fence(member: Membership) -> None:
    beat(member)
    assert member.state is MemberState.STABLE
    fence(member)


def finish_leaving(member: Membership) -> None:
    request = member.heartbeat(5.0)
    assert request is not None
    assert request.member_epoch == -1


def acknowledge_assignment(member: Membership) -> None:
    assert member.heartbeat(5.0) is not None  # not only at 10.0, when the interval ends
    assert member.assigned == A
    assert member.next_deadline() is None
    member.answered(heartbeat_response(2), 5.5)
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
    # Ours, see sharebroker_protocol/membership.py
    ("RECONCILING ---> RELEASING_ASSIGNMENT", _S.RECONCILING, fence, _S.RELEASING_ASSIGNMENT_COMPLETE),
    ("STABLE ---> LEAVING", _S.STABLE, Membership.leave, _S.LEAVING),
    ("RELEASING_ASSIGNMENT ---> LEFT", _S.RELEASING_ASSIGNMENT, Membership.leave, _S.LEFT),
    ("LEAVING ---> LEFT", _S.LEAVING, finish_leaving, _S.LEFT),
    ("LEFT ---> UNJOINED", _S.LEFT, lambda member: member.subscribe(TOPICS), _S.UNJOINED),
]


@pytest.mark.parametrize(("start", "cause", "end"), [pytest.param(*a[1:], id=a[0]) for a in ARROWS])
def test_event_leads_to_the_state_of_the_diagram(
    start: MemberState, cause: Callable[[Membership], None], end: MemberState
) -> None:
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


@each("state", MemberState)
@each("event", MemberEvent)
def test_unlisted_transition_is_illegal(state: MemberState, event: MemberEvent) -> None:
    if (state, event) in TRANSITIONS:
        assert isinstance(after(state, event), MemberState)
    else:
        with pytest.raises(IllegalStateError, match=event.name):
            after(state, event)


def joined(now: float = 0.0) -> Membership:
    member = Membership(MembershipSettings(rack_id="rack"))
    member.subscribe(TOPICS)
    assert member.heartbeat(now) == HeartbeatRequest(0, "rack", TOPICS)
    member.answered(HeartbeatResponse(1, 5.0), now)
    return member


def test_no_heartbeat_before_subscription() -> None:
    member = Membership(MembershipSettings())
    assert member.next_deadline() is None
    assert member.heartbeat(0.0) is None
    member.leave()
    assert member.state is MemberState.UNJOINED


def test_the_first_empty_assignment_is_acknowledged_at_once() -> None:
    member = Membership(MembershipSettings())
    member.subscribe(TOPICS)
    member.heartbeat(0.0)
    member.answered(HeartbeatResponse(1, 5.0, frozenset()), 0.0)
    assert member.state is MemberState.RECONCILIATION_COMPLETE
    assert member.heartbeat(0.0) == HeartbeatRequest(1)
    member.answered(HeartbeatResponse(1, 5.0, frozenset()), 0.0)
    assert member.heartbeat(0.0) is None  # the same again is not new


def test_fields_are_sent_once_and_again_after_an_error() -> None:
    member = joined()
    assert member.heartbeat(5.0) == HeartbeatRequest(1)
    member.failed(KafkaError(ErrorCode.NOT_COORDINATOR), 5.0)
    assert member.heartbeat(5.1) == HeartbeatRequest(1, "rack", TOPICS)


def test_changed_subscription_is_sent_at_once_without_rack() -> None:
    member = joined()
    more = frozenset({"flights", "planes"})
    member.subscribe(more)
    assert member.heartbeat(0.0) == HeartbeatRequest(1, None, more)
    member.answered(HeartbeatResponse(2, 5.0), 0.0)
    member.subscribe(more)
    assert member.next_deadline() == 5.0


def test_change_during_heartbeat_is_sent_right_after_it() -> None:
    member = joined()
    member.heartbeat(5.0)
    member.subscribe(frozenset({"planes"}))
    assert member.heartbeat(5.0) is None
    member.answered(HeartbeatResponse(1, 5.0), 5.0)
    assert member.heartbeat(5.0) == HeartbeatRequest(1, None, frozenset({"planes"}))


def test_interval_of_response_is_used() -> None:
    member = joined()
    member.heartbeat(5.0)
    member.answered(HeartbeatResponse(1, 2.0), 5.5)
    assert member.next_deadline() == 7.5
    member.heartbeat(7.5)
    member.answered(HeartbeatResponse(1, 0.0), 7.5)  # would be a busy loop
    assert member.next_deadline() == 9.5


def test_retries_back_off_until_a_response() -> None:
    member = joined()
    now, waits = 5.0, []
    for _ in range(6):
        assert member.heartbeat(now) is not None
        member.failed(KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), now)
        deadline = member.next_deadline()
        assert deadline is not None
        waits.append(round(deadline - now, 3))
        now = deadline
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    member.heartbeat(now)
    member.answered(HeartbeatResponse(1, 5.0), now)
    member.heartbeat(now + 5)
    member.failed(KafkaError(ErrorCode.NOT_COORDINATOR), now + 5)
    assert member.next_deadline() == now + 5 + 0.1


def test_invalid_topic_is_reported_and_membership_continues() -> None:
    member = joined()
    error = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    member.heartbeat(5.0)
    member.failed(error, 5.0)
    assert member.take_report() is error
    assert member.take_report() is None
    assert member.state is MemberState.STABLE
    assert member.next_deadline() == 10.0


def test_unknown_member_while_joining_is_retried() -> None:
    member = Membership(MembershipSettings())
    member.subscribe(TOPICS)
    member.heartbeat(0.0)
    member.failed(KafkaError(ErrorCode.UNKNOWN_MEMBER_ID), 0.0)
    assert member.state is MemberState.UNJOINED
    assert member.next_deadline() == 0.1


def test_leave_waits_for_heartbeat_in_flight_only() -> None:
    member = joined()
    member.heartbeat(5.0)
    member.leave()
    member.leave()
    assert member.heartbeat(5.0) is None
    member.answered(HeartbeatResponse(1, 5.0), 5.0)
    states = [member.state]
    assert member.heartbeat(5.0) == HeartbeatRequest(-1)
    states.append(member.state)
    assert states == [MemberState.LEAVING, MemberState.LEFT]


def test_leave_response_does_not_complete_a_rejoin() -> None:
    member = joined()
    member.leave()
    member.heartbeat(1.0)
    member.subscribe(TOPICS)
    assert member.state is MemberState.UNJOINED
    assert member.heartbeat(1.0) is None  # in order: first revoked, then assigned
    member.answered(HeartbeatResponse(-1, 5.0), 1.0)
    assert member.state is MemberState.UNJOINED
    assert member.heartbeat(1.0) == HeartbeatRequest(0, "rack", TOPICS)


def test_subscribe_while_leaving_joins_after_leave() -> None:
    member = joined()
    member.leave()
    member.subscribe(TOPICS)
    assert member.heartbeat(1.0) == HeartbeatRequest(-1)
    assert member.state is MemberState.UNJOINED


def test_error_of_leave_is_ignored() -> None:
    member = joined()
    member.leave()
    member.heartbeat(1.0)
    member.failed(KafkaError(ErrorCode.GROUP_ID_NOT_FOUND), 1.0)
    assert (member.state, member.error) == (MemberState.LEFT, None)


@each(
    "code, reaction",
    [
        (ErrorCode.NOT_COORDINATOR, Reaction.BACK_OFF),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, Reaction.BACK_OFF),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Reaction.BACK_OFF),
        (ErrorCode.REQUEST_TIMED_OUT, Reaction.BACK_OFF),
        (ErrorCode.UNKNOWN_MEMBER_ID, Reaction.REJOIN),
        (ErrorCode.FENCED_MEMBER_EPOCH, Reaction.REJOIN),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, Reaction.REPORT),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, Reaction.GIVE_UP),
        (ErrorCode.INVALID_REQUEST, Reaction.GIVE_UP),
        (ErrorCode.GROUP_MAX_SIZE_REACHED, Reaction.GIVE_UP),
        (ErrorCode.UNSUPPORTED_VERSION, Reaction.GIVE_UP),
        (ErrorCode.GROUP_ID_NOT_FOUND, Reaction.GIVE_UP),
        (ErrorCode.UNKNOWN_SERVER_ERROR, Reaction.GIVE_UP),
    ],
)
def test_error_code_determines_the_reaction(code: ErrorCode, reaction: Reaction) -> None:
    assert reaction_to(code) is reaction
