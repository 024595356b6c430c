"""What heartbeats say and when they go (reference, client behaviour: membership)."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.membership.heartbeat import (
    HeartbeatRequest,
    HeartbeatResponse,
    Reaction,
    reaction_to,
)
from sharebroker_protocol.membership.machine import Membership, MembershipSettings
from sharebroker_protocol.membership.states import MemberState

TOPICS = frozenset({"flights"})


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
    assert member.heartbeat(1.0) is None  # in order: first out, then in
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


@pytest.mark.parametrize(
    ("code", "reaction"),
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
def test_reactions(code: ErrorCode, reaction: Reaction) -> None:
    assert reaction_to(code) is reaction
