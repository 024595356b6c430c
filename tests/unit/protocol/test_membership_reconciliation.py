"""The step table of seed 003, row by row: thread, starting state, ending state.

Rows 14 and 15 are blank in the seed; they are read as the counterparts of rows 7 and 8. The second row 9 has
the "(how?)" of the seed answered: a heartbeat sent after the revocation was answered. Rows 13, 14 and 19 at
the table's end are blank too and mean nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.membership import (
    Callback,
    CallbackKind,
    HeartbeatResponse,
    Membership,
    MembershipSettings,
    MemberState,
    Partitions,
    Phase,
)
from sharebroker_protocol.model import TopicIdPartition

P0, P1, P2, P3 = (TopicIdPartition("a", n) for n in range(4))


def partitions(*of: TopicIdPartition) -> Partitions:
    return frozenset(of)


@dataclass
class Consumer:
    """Both threads of a consumer, driven by hand."""

    listener: bool = True
    now: float = 0.0
    epoch: int = 0
    calls: list[tuple[CallbackKind, Partitions]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.member = Membership(MembershipSettings(has_listener=self.listener))
        self.member.subscribe(frozenset({"flights"}))

    def background(self, assignment: Partitions | None = None) -> None:
        """The background thread: one heartbeat and its answer."""
        deadline = self.member.next_deadline()
        assert deadline is not None
        self.now = max(self.now, deadline)
        assert self.member.heartbeat(self.now) is not None
        self.epoch += 1
        self.member.answered(HeartbeatResponse(self.epoch, 5.0, assignment), self.now)

    def application(self) -> Callback:
        """The application's thread in poll(): take one event and run the listener."""
        callback = self.member.next_callback()
        assert callback is not None
        self.calls.append((callback.kind, callback.partitions))
        return callback


def holding(*of: TopicIdPartition, listener: bool = True) -> Consumer:
    consumer = Consumer(listener)
    consumer.background(partitions(*of))
    if listener and of:
        consumer.member.callback_completed(consumer.application())
    consumer.background()
    assert consumer.member.assigned == partitions(*of)
    assert consumer.member.state is MemberState.STABLE
    consumer.calls.clear()
    return consumer


def revoking() -> Consumer:
    consumer = holding(P0, P1)
    consumer.background(partitions(P1, P2))
    return consumer


def awaiting_confirmation() -> Consumer:
    consumer = revoking()
    consumer.member.callback_completed(consumer.application())
    return consumer


def step(row: str, thread: str, start: str, end: str) -> str:
    return f"step {row} {thread} {start} -> {end}"


class TestSteps:
    @pytest.mark.parametrize("_row", [step("1", "Background", "Stable", "Stable")])
    def test_response_without_new_assignment_keeps_the_state(self, _row: str) -> None:
        consumer = holding(P0)
        consumer.background()
        assert consumer.member.phase is Phase.STABLE
        assert consumer.member.state is MemberState.STABLE

    @pytest.mark.parametrize("_row", [step("2", "Background", "Stable", "Updating")])
    def test_new_assignment_starts_reconciliation(self, _row: str) -> None:
        consumer = holding(P0)
        consumer.background(partitions(P0, P1))
        assert consumer.member.state is MemberState.RECONCILING
        assert consumer.member.assigned == partitions(P0)  # held as before until callbacks have run

    @pytest.mark.parametrize("_row", [step("3", "Background", "Updating", "Updating")])
    def test_newly_revoked_partitions_are_found_by_comparison(self, _row: str) -> None:
        consumer = revoking()
        assert consumer.application().partitions == partitions(P0)

    @pytest.mark.parametrize("_row", [step("4", "Background", "Updating", "Revoking via Callback")])
    def test_a_revocation_is_queued_for_the_application(self, _row: str) -> None:
        consumer = revoking()
        assert consumer.member.phase is Phase.REVOKING
        assert consumer.application().kind is CallbackKind.REVOKED

    @pytest.mark.parametrize("_row", [step("5", "Background", "Updating", "Assigning")])
    @pytest.mark.parametrize("listener", [True, False], ids=["nothing to revoke", "no listener"])
    def test_the_revocation_is_skipped(self, _row: str, listener: bool) -> None:
        consumer = holding(P0, listener=listener)
        consumer.background(partitions(P0, P1) if listener else partitions(P1))
        assert consumer.member.phase is (Phase.ASSIGNING if listener else Phase.STABLE)

    @pytest.mark.parametrize(
        "_row", [step("6", "Application", "Revoking via Callback", "Revoking via Callback")]
    )
    def test_poll_runs_the_revocation(self, _row: str) -> None:
        consumer = revoking()
        consumer.application()
        assert consumer.calls == [(CallbackKind.REVOKED, partitions(P0))]
        assert consumer.member.phase is Phase.REVOKING
        assert P0 in consumer.member.assigned

    @pytest.mark.parametrize("_row", [step("7", "Application", "Revoking", "Revoking")])
    def test_heartbeats_continue_until_revocation_is_reported(self, _row: str) -> None:
        consumer = revoking()
        consumer.application()
        consumer.background()
        consumer.background()
        assert consumer.member.phase is Phase.REVOKING
        assert consumer.member.state is MemberState.RECONCILING

    @pytest.mark.parametrize(
        "_row", [step("8", "Background", "Revoking", "Awaiting Revocation Confirmation")]
    )
    def test_the_reported_revocation_takes_effect(self, _row: str) -> None:
        consumer = awaiting_confirmation()
        assert consumer.member.phase is Phase.AWAITING_CONFIRMATION
        assert consumer.member.assigned == partitions(P1)

    @pytest.mark.parametrize("_row", [step("9a", "Background", "Awaiting", "Awaiting")])
    def test_only_response_to_later_heartbeat_confirms(self, _row: str) -> None:
        consumer = revoking()
        callback = consumer.application()
        consumer.now += 5
        assert consumer.member.heartbeat(consumer.now) is not None
        consumer.member.callback_completed(callback)
        consumer.member.answered(HeartbeatResponse(9, 5.0), consumer.now)  # sent before the revocation
        assert consumer.member.phase is Phase.AWAITING_CONFIRMATION
        assert consumer.member.heartbeat(consumer.now) is not None  # at once
        consumer.member.failed(KafkaError(ErrorCode.NOT_COORDINATOR), consumer.now)
        assert consumer.member.phase is Phase.AWAITING_CONFIRMATION

    @pytest.mark.parametrize("_row", [step("9b", "Background", "Awaiting", "Updating")])
    @pytest.mark.parametrize("newer", [None, partitions(P3)], ids=["same target", "newer target"])
    def test_confirmation_repeats_from_step_2(self, _row: str, newer: Partitions | None) -> None:
        consumer = awaiting_confirmation()
        consumer.background(newer)
        assert consumer.member.phase is (Phase.ASSIGNING if newer is None else Phase.REVOKING)

    @pytest.mark.parametrize("_row", [step("10", "Background", "Updating", "Updating")])
    def test_newly_assigned_partitions_are_found_by_comparison(self, _row: str) -> None:
        consumer = awaiting_confirmation()
        consumer.background()
        assert consumer.application().partitions == partitions(P2)

    @pytest.mark.parametrize("_row", [step("11", "Background", "Updating", "Assigning via Callback")])
    def test_an_assignment_is_queued_for_the_application(self, _row: str) -> None:
        consumer = holding()
        consumer.background(partitions(P0))
        assert consumer.member.phase is Phase.ASSIGNING
        assert consumer.application().kind is CallbackKind.ASSIGNED

    @pytest.mark.parametrize("_row", [step("12", "Background", "Updating", "step 1")])
    @pytest.mark.parametrize("listener", [True, False], ids=["nothing to assign", "no listener"])
    def test_the_assignment_is_skipped(self, _row: str, listener: bool) -> None:
        consumer = holding(P0, P1, listener=listener)
        consumer.background(partitions(P0) if listener else partitions(P2))
        if listener:
            consumer.member.callback_completed(consumer.application())
            consumer.background()
        assert consumer.member.phase is Phase.STABLE
        assert consumer.member.state is MemberState.RECONCILIATION_COMPLETE
        assert consumer.member.assigned == partitions(P0 if listener else P2)

    @pytest.mark.parametrize("_row", [step("13", "Application", "Assigning via Callback", "Assigning")])
    def test_poll_runs_the_assignment(self, _row: str) -> None:
        consumer = holding()
        consumer.background(partitions(P0))
        consumer.application()
        assert consumer.calls == [(CallbackKind.ASSIGNED, partitions(P0))]
        assert consumer.member.assigned == frozenset()

    @pytest.mark.parametrize("_row", [step("14", "Application", "Assigning", "Assigning")])
    def test_heartbeats_continue_until_assignment_is_reported(self, _row: str) -> None:
        consumer = holding()
        consumer.background(partitions(P0))
        consumer.application()
        consumer.background()
        assert consumer.member.phase is Phase.ASSIGNING

    @pytest.mark.parametrize("_row", [step("15", "Background", "Assigning", "Updating")])
    @pytest.mark.parametrize("newer", [None, partitions(P0, P3)], ids=["done", "target moved on"])
    def test_the_reported_assignment_takes_effect(self, _row: str, newer: Partitions | None) -> None:
        consumer = holding()
        consumer.background(partitions(P0))
        callback = consumer.application()
        if newer is not None:
            consumer.background(newer)
        consumer.member.callback_completed(callback)
        assert consumer.member.assigned == partitions(P0)
        assert consumer.member.phase is (Phase.STABLE if newer is None else Phase.ASSIGNING)


def test_obsolete_callback_is_ignored() -> None:
    consumer = revoking()
    callback = consumer.application()
    consumer.now += 5
    assert consumer.member.heartbeat(consumer.now) is not None
    consumer.member.failed(KafkaError(ErrorCode.UNKNOWN_MEMBER_ID), consumer.now)
    consumer.member.callback_completed(callback)
    states = [consumer.member.state]
    lost = consumer.application()
    assert (lost.kind, lost.partitions) == (CallbackKind.LOST, partitions(P0, P1))
    consumer.member.callback_completed(lost)
    states.append(consumer.member.state)
    assert states == [MemberState.RELEASING_ASSIGNMENT, MemberState.RELEASING_ASSIGNMENT_COMPLETE]


def test_new_target_waits_for_acknowledgement_of_last() -> None:
    consumer = holding()
    consumer.background(partitions(P0))
    consumer.now += 5
    assert consumer.member.heartbeat(consumer.now) is not None
    consumer.member.callback_completed(consumer.application())
    consumer.member.answered(HeartbeatResponse(9, 5.0, partitions(P1)), consumer.now)
    assert consumer.member.state is MemberState.RECONCILIATION_COMPLETE
    consumer.background()
    assert consumer.member.phase is Phase.REVOKING


def test_without_a_listener_a_fenced_member_rejoins_at_once() -> None:
    consumer = holding(P0, listener=False)
    consumer.now += 5
    assert consumer.member.heartbeat(consumer.now) is not None
    consumer.member.failed(KafkaError(ErrorCode.UNKNOWN_MEMBER_ID), consumer.now)
    assert consumer.member.assigned == frozenset()
    request = consumer.member.heartbeat(consumer.now)
    assert request is not None
    assert request.member_epoch == 0
    assert consumer.member.state is MemberState.UNJOINED


def test_no_callback_is_pending_in_stable_state() -> None:
    assert holding(P0).member.next_callback() is None
