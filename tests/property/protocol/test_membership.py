"""A member under any order of events: it never breaks, and ends with the coordinator's last assignment."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.membership import (
    Callback,
    HeartbeatResponse,
    Membership,
    MembershipSettings,
    MemberState,
    Partitions,
)
from sharebroker_protocol.model import TopicIdPartition

ASSIGNMENTS = st.frozensets(st.integers(0, 3).map(lambda n: TopicIdPartition("a", n)))
CODES = st.sampled_from(
    [
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.REQUEST_TIMED_OUT,
    ]
)
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("pass"), st.floats(0, 6)),
        st.tuples(st.just("answer"), st.none() | ASSIGNMENTS),
        st.tuples(st.just("refuse"), CODES),
        st.tuples(st.just("take"), st.none()),
        st.tuples(st.just("complete"), st.none()),
        st.tuples(st.just("subscribe"), st.sampled_from(["a", "b"])),
        st.tuples(st.just("leave"), st.none()),
    ),
    max_size=60,
)


class Harness:
    """The member, a coordinator that replies on request, and an application that runs callbacks on
    request.
    """

    def __init__(self, listener: bool) -> None:
        self.member = Membership(MembershipSettings(has_listener=listener))
        self.now = 0.0
        self.epoch = 0
        self.in_flight = False
        self.running: Callback | None = None

    def step(self, what: str, value: object) -> None:
        member = self.member
        if what == "pass" and isinstance(value, float):
            self.now += value
            if member.heartbeat(self.now) is not None:
                assert not self.in_flight, "one heartbeat at a time"
                self.in_flight = True
        elif what == "answer" and self.in_flight:
            assert value is None or isinstance(value, frozenset)
            self.in_flight = False
            self.epoch += 1
            member.answered(HeartbeatResponse(self.epoch, 5.0, value), self.now)
        elif what == "refuse" and self.in_flight:
            assert isinstance(value, ErrorCode)
            self.in_flight = False
            member.failed(KafkaError(value), self.now)
        elif what == "take" and self.running is None:
            self.running = member.next_callback()
        elif what == "complete" and self.running is not None:
            callback, self.running = self.running, None
            member.callback_completed(callback)
        elif what == "subscribe":
            member.subscribe(frozenset({str(value)}))
        elif what == "leave":
            member.leave()
            self.running = None

    def settle(self, target: Partitions) -> None:
        """Runs everything until it is idle, with `target` as the coordinator's last assignment."""
        self.member.subscribe(frozenset({"c"}))
        for _ in range(20):
            self.step("complete", None)
            self.step("take", None)
            self.step("pass", 6.0)
            self.step("answer", target)


@given(EVENTS, ASSIGNMENTS, st.booleans())
def test_reconciliation_reaches_last_assignment(
    events: list[tuple[str, object]], target: Partitions, listener: bool
) -> None:
    harness = Harness(listener)
    for what, value in events:
        harness.step(what, value)
    harness.settle(target)
    assert harness.member.state is MemberState.STABLE
    assert harness.member.assigned == target
    assert harness.member.next_callback() is None


@given(EVENTS, st.booleans())
def test_unknown_error_is_fatal(events: list[tuple[str, object]], listener: bool) -> None:
    harness = Harness(listener)
    for what, value in events:
        harness.step(what, value)
    harness.member.subscribe(frozenset({"c"}))
    harness.step("answer", None)
    harness.step("pass", 6.0)  # a member that is leaving has to be out before it joins again
    harness.member.fail(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))
    assert harness.member.state is MemberState.FATAL
    harness.now += 1000
    assert harness.member.heartbeat(harness.now) is None
    assert harness.member.assigned == frozenset()
