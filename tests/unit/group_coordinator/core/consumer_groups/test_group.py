"""Consumer groups: members reach the same generation, and offsets are kept (Kafka: ClassicGroup)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.group_coordinator.core.consumer_groups.commands import (
    CommitOffsets,
    Committed,
    ConsumerHeartbeat,
    DescribeConsumers,
    DescribedConsumer,
    Join,
    Joined,
    Leaver,
    MemberIdentity,
    Sync,
    Synced,
)
from sharebroker_server.group_coordinator.core.consumer_groups.group import (
    Consumer,
    ConsumerGroup,
    DeferredReply,
    Edit,
    GroupReplaced,
)
from sharebroker_server.group_coordinator.core.deadlines import DeadlineSet, MemberSession
from tests.support.examples import scaled
from tests.unit.group_coordinator.consumer_harness import AT, REBALANCE, SESSION, ConsumerHarness


@pytest.fixture
def group() -> ConsumerHarness:
    return ConsumerHarness()


def test_only_member_leads_and_receives_its_assignment(group: ConsumerHarness) -> None:
    place = group.joined(group.join("", "range", "sticky", fresh="m"))
    assert (place.generation, place.leader, place.member_id) == (1, "m", "m")
    assert (place.protocol_type, place.protocol) == ("consumer", "range")
    assert [(one.member_id, one.metadata) for one in place.members] == [("m", b"range of m")]
    assert group.synced(group.sync("m", 1, m="all of it")) == "all of it"
    group.stay("m", 1)
    found = group.described()
    assert (found.state, found.protocol_type, found.protocol) == ("Stable", "consumer", "range")
    assert [(one.member_id, one.metadata, one.assignment) for one in found.members] == [
        ("m", b"range of m", b"all of it")
    ]
    assert group.synced(group.sync("m", 1)) == "all of it", "a repeated request returns the same"


def test_joining_member_starts_a_rebalance(group: ConsumerHarness) -> None:
    group.stable("a")
    coming = group.join("", fresh="b")
    assert group.waits(coming)
    assert group.described().state == "PreparingRebalance"
    assert (
        group.refuses(ConsumerHeartbeat(MemberIdentity("g", 1, "a"))).code is ErrorCode.REBALANCE_IN_PROGRESS
    )
    assert group.refuses(Sync(MemberIdentity("g", 1, "a"), {}, 99)).code is ErrorCode.REBALANCE_IN_PROGRESS
    again = group.join("a")
    leads, follows = group.joined(again), group.joined(coming)
    assert (leads.generation, follows.generation) == (2, 2)
    assert [one.member_id for one in leads.members] == ["a", "b"]
    assert (follows.leader, follows.members) == ("a", ())
    waiting = group.sync("b", 2)
    assert group.waits(waiting)
    group.stay("b", 2)
    assert group.synced(group.sync("a", 2, a="0", b="1")) == "0"
    assert group.synced(waiting) == "1"


def test_leaving_member_starts_a_rebalance(group: ConsumerHarness) -> None:
    generation = group.stable("a", "b", "c")
    assert group.leave(Leaver("a")) == [None]
    assert (
        group.refuses(ConsumerHeartbeat(MemberIdentity("g", generation, "b"))).code
        is ErrorCode.REBALANCE_IN_PROGRESS
    )
    one, other = group.join("c"), group.join("b")
    assert group.joined(one).leader == "b", "the member that joined first leads"
    assert group.joined(other).generation == generation + 1
    assert group.leave(Leaver("a"), Leaver("c"), Leaver("b")) == [ErrorCode.UNKNOWN_MEMBER_ID, None, None]
    assert group.refuses(DescribeConsumers("g")).code is ErrorCode.GROUP_ID_NOT_FOUND


def test_member_whose_session_timed_out_is_removed(group: ConsumerHarness) -> None:
    generation = group.stable("a", "b")
    group.pass_time(SESSION - 1)
    group.stay("a", generation)
    group.pass_time(1)
    assert [one.member_id for one in group.described().members] == ["a"]
    assert (
        group.refuses(ConsumerHeartbeat(MemberIdentity("g", generation, "b"))).code
        is ErrorCode.UNKNOWN_MEMBER_ID
    )
    group.pass_time(SESSION)
    assert group.refuses(DescribeConsumers("g")).code is ErrorCode.GROUP_ID_NOT_FOUND


def test_waiting_member_needs_no_heartbeat_and_absent_one_is_removed(group: ConsumerHarness) -> None:
    generation = group.stable("a", "b")
    waiting = group.join("a", "range", "sticky")  # it supports another assignor now
    for _ in range(7):
        group.pass_time(SESSION - 1)
        if group.described().state == "PreparingRebalance":
            with pytest.raises(KafkaError):
                group.stay("b", generation)
    assert group.joined(waiting).generation == generation + 1
    assert [one.member_id for one in group.described().members] == ["a"]


def test_members_that_never_sync_are_removed(group: ConsumerHarness) -> None:
    group.stable("a")
    coming, again = group.join("", fresh="b"), group.join("a")
    assert group.joined(again).leader == "a"
    generation = group.joined(coming).generation
    waiting = group.sync("b", generation)
    for _ in range(int(REBALANCE // SESSION) + 1):  # the leader sends heartbeats and no assignment
        group.pass_time(SESSION - 1)
        if group.waits(waiting):
            group.stay("a", generation)
    assert group.refused(waiting) is ErrorCode.REBALANCE_IN_PROGRESS
    assert [one.member_id for one in group.described().members] == ["b"]
    assert group.joined(group.join("b")).leader == "b"


def test_repeated_join_returns_the_lost_reply(group: ConsumerHarness) -> None:
    first = group.joined(group.join("", fresh="a"))
    assert group.joined(group.join("a")) == first, "before it synced"
    generation = first.generation
    waiting = group.sync("a", generation, a="x")
    assert group.synced(waiting) == "x"
    coming = group.join("", fresh="b")
    repeated = group.join("b")
    assert group.refused(coming) is ErrorCode.REBALANCE_IN_PROGRESS
    again = group.join("a")
    assert group.joined(repeated).generation == group.joined(again).generation == generation + 1
    syncing = group.sync("b", generation + 1)
    repeated = group.sync("b", generation + 1)
    assert group.refused(syncing) is ErrorCode.REBALANCE_IN_PROGRESS
    group.sync("a", generation + 1, b="y")
    assert group.synced(repeated) == "y"
    assert group.joined(group.join("b")).generation == generation + 1, "a follower changes nothing"


def test_leader_that_joins_again_starts_a_rebalance(group: ConsumerHarness) -> None:
    generation = group.stable("a", "b")
    again = group.join("a")
    assert group.waits(again)
    group.join("b")
    assert group.joined(again).generation == generation + 1


def test_most_preferred_common_assignor_is_elected(group: ConsumerHarness) -> None:
    one = group.join("", "range", "sticky", fresh="a")
    assert group.joined(one).protocol == "range"
    waiting = [
        group.join("", "sticky", "range", fresh="b"),
        group.join("", "newest", "sticky", "range", fresh="c"),
        group.join("a", "range", "sticky"),
    ]
    assert {group.joined(ticket).protocol for ticket in waiting} == {"sticky"}
    refused = Join("g", "", "d", SESSION, REBALANCE, "consumer", (("newest", b""),), 99)
    assert group.refuses(refused).code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    other = Join("g", "", "d", SESSION, REBALANCE, "connect", (("range", b""),), 99)
    assert group.refuses(other).code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    nothing = Join("x", "", "d", SESSION, REBALANCE, "", (), 99)
    assert group.refuses(nothing).code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_member_joins_with_the_id_of_member_id_required(group: ConsumerHarness) -> None:
    join = Join("g", "", "given", SESSION, REBALANCE, "consumer", (("range", b""),), 1, must_be_known=True)
    error = group.refuses(join)
    assert (error.code, error.metadata["member_id"]) == (ErrorCode.MEMBER_ID_REQUIRED, "given")
    assert group.joined(group.join("given")).leader == "given"
    assert group.refuses(
        Join("g", "made up", "", SESSION, REBALANCE, "consumer", (("range", b""),), 1)
    ).code is (ErrorCode.UNKNOWN_MEMBER_ID)


def test_promised_member_id_expires(group: ConsumerHarness) -> None:
    join = Join("g", "", "given", SESSION, REBALANCE, "consumer", (("range", b""),), 1, must_be_known=True)
    group.refuses(join)
    waiting = group.join("", fresh="a")
    assert group.waits(waiting), "the other member may still join"
    group.pass_time(SESSION)
    assert group.joined(waiting).leader == "a"
    group.refuses(join)
    assert group.leave(Leaver("given")) == [None]


def test_first_rebalance_waits_the_initial_delay() -> None:
    group = ConsumerHarness("group.initial.rebalance.delay.ms=3000")
    first, second = group.join("", fresh="a"), group.join("", fresh="b")
    assert group.waits(first)
    group.pass_time(3)
    assert group.joined(first).generation == group.joined(second).generation == 1


def test_static_member_returns_to_its_place(group: ConsumerHarness) -> None:
    assert group.joined(group.join("", fresh="a", instance="one")).leader == "a"
    coming, again = group.join("", fresh="b", instance="two"), group.join("a", instance="one")
    generation = group.joined(coming).generation
    group.joined(again)
    group.sync("a", generation, "one", a="0", b="1")
    # "two" restarts with the same metadata: no member has to join again.
    ticket = group.join("", fresh="b2", instance="two", protocols=(("range", b"range of b"),))
    assert group.joined(ticket).generation == generation
    assert group.synced(group.sync("b2", generation, "two")) == "1"
    fenced = ConsumerHeartbeat(MemberIdentity("g", generation, "b", "two"))
    assert group.refuses(fenced).code is ErrorCode.FENCED_INSTANCE_ID
    assert (
        group.refuses(ConsumerHeartbeat(MemberIdentity("g", generation, "b"))).code
        is ErrorCode.UNKNOWN_MEMBER_ID
    )
    other = ConsumerHeartbeat(MemberIdentity("g", generation, "b2", "three"))
    assert group.refuses(other).code is ErrorCode.UNKNOWN_MEMBER_ID
    # The leader restarts: it has to assign again.
    waiting = group.join("", fresh="a2", instance="one")
    assert group.waits(waiting)
    group.join("b2", instance="two")
    assert group.joined(waiting).leader == "a2"
    assert group.leave(Leaver("", "one"), Leaver("", "unknown")) == [None, ErrorCode.UNKNOWN_MEMBER_ID]


def test_replaced_static_member_is_fenced_while_it_waits(group: ConsumerHarness) -> None:
    group.stable("a")
    waiting = group.join("", fresh="b", instance="one")
    newer = group.join("", fresh="b2", instance="one")
    assert group.refused(waiting) is ErrorCode.FENCED_INSTANCE_ID
    again = group.join("a")
    assert group.joined(newer).generation == group.joined(again).generation


def test_static_members_stay_through_a_missed_rebalance(group: ConsumerHarness) -> None:
    group.joined(group.join("", fresh="a", instance="one", session_timeout=100.0))
    waiting = group.join("", fresh="b")
    group.pass_time(REBALANCE)
    assert group.joined(waiting).leader == "b"
    assert {one.member_id for one in group.described().members} == {"a", "b"}
    group.leave(Leaver("b"))
    assert group.described().state == "PreparingRebalance"
    group.pass_time(REBALANCE)
    assert group.refuses(DescribeConsumers("g")).code is ErrorCode.GROUP_ID_NOT_FOUND


def test_rebalance_of_static_members_alone_waits(group: ConsumerHarness) -> None:
    group.joined(group.join("", fresh="a", instance="one", session_timeout=200.0))
    group.join("", fresh="b")
    group.leave(Leaver("b"))
    group.pass_time(REBALANCE + 1)
    assert group.described().state == "PreparingRebalance", "it is alive, and is to join again"
    assert group.joined(group.join("a", instance="one")).leader == "a"


@pytest.mark.parametrize(
    ("generation", "member", "code"),
    [
        (2, "a", ErrorCode.ILLEGAL_GENERATION),
        (0, "a", ErrorCode.ILLEGAL_GENERATION),
        (1, "unknown", ErrorCode.UNKNOWN_MEMBER_ID),
        (-1, "", ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_only_members_of_the_generation_are_accepted(
    group: ConsumerHarness, generation: int, member: str, code: ErrorCode
) -> None:
    group.stable("a")
    identity = MemberIdentity("g", generation, member)
    for command in (
        ConsumerHeartbeat(identity),
        Sync(identity, {}, 99),
        CommitOffsets(identity, {AT: Committed(1)}),
    ):
        assert group.refuses(command).code is code


def test_sync_with_another_assignor_is_rejected(group: ConsumerHarness) -> None:
    generation = group.stable("a")
    identity = MemberIdentity("g", generation, "a")
    for kind, name in (("connect", None), (None, "sticky")):
        error = group.refuses(Sync(identity, {}, 99, kind, name))
        assert error.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


MEMBERS = ("a", "b", "c")
Steps = st.lists(
    st.one_of(
        st.tuples(st.just("join"), st.sampled_from(MEMBERS), st.sampled_from(["range", "sticky"])),
        st.tuples(st.just("sync"), st.sampled_from(MEMBERS), st.booleans()),
        st.tuples(st.sampled_from(["stay", "leave", "commit"]), st.sampled_from(MEMBERS), st.none()),
        st.tuples(st.just("wait"), st.floats(0.1, 70), st.none()),
    ),
    max_size=40,
)


@settings(max_examples=scaled(200), deadline=None)
@given(Steps)
def test_every_request_gets_one_reply_and_a_generation_one_leader(
    steps: list[tuple[str, object, object]],
) -> None:
    group = ConsumerHarness()
    generations: dict[str, int] = {}
    leaders: dict[int, str] = {}
    waiting: dict[int, str] = {}

    def look() -> None:
        for ticket, member in list(waiting.items()):
            response = group.replies.pop(ticket, None)
            if response is None:
                continue
            del waiting[ticket]
            if isinstance(response, Joined):
                assert response.member_id == member
                generations[member] = response.generation
                assert leaders.setdefault(response.generation, response.leader) == response.leader
            else:
                assert isinstance(response, Synced | KafkaError)
        assert not group.replies, "no request has two replies"
        if not described(group):
            leaders.clear()  # the next one is another group

    for kind, identity, more in steps:
        name = str(identity)
        try:
            if kind == "wait":
                assert isinstance(identity, float)
                group.pass_time(identity)
            elif kind == "join":
                known = any(one.member_id == name for one in described(group))
                protocols = ("range", "sticky") if more == "range" else ("sticky", "range")
                ticket = group.join(name if known else "", *protocols, fresh=name)
                waiting[ticket] = name
            elif kind == "sync":
                parts = {one: one for one in MEMBERS} if more else {}
                waiting[group.sync(name, generations.get(name, 0), None, **parts)] = name
            elif kind == "stay":
                group.stay(name, generations.get(name, 0))
            elif kind == "leave":
                group.leave(Leaver(name))
            else:
                group.commit(1, name, generations.get(name, 0))
        except KafkaError:
            pass
        look()
    for _ in range(4):
        group.pass_time(REBALANCE + SESSION)
        look()
    assert not waiting, "no request waits indefinitely"
    assert not described(group), "members without heartbeats are removed"


def described(group: ConsumerHarness) -> tuple[DescribedConsumer, ...]:
    try:
        return group.described().members
    except KafkaError:
        return ()


def consumer(joining: int | None = None, syncing: int | None = None) -> Consumer:
    protocols = (("range", b"first"), ("sticky", b"second"))
    return Consumer("a", None, "c", "h", 10.0, 60.0, protocols, joining=joining, syncing=syncing)


@pytest.mark.parametrize(
    ("joining", "syncing", "waits"), [(None, None, False), (0, None, True), (None, 0, True), (1, 2, True)]
)
def test_member_waits_for_a_deferred_reply(joining: int | None, syncing: int | None, waits: bool) -> None:
    assert consumer(joining, syncing).waits is waits


@pytest.mark.parametrize(("protocol", "metadata"), [("range", b"first"), ("sticky", b"second"), ("x", b"")])
def test_member_metadata_is_selected_by_assignor(protocol: str, metadata: bytes) -> None:
    assert consumer().metadata(protocol) == metadata


MEMBER_SESSION = MemberSession("g", "a")


def test_original_group_does_not_change() -> None:
    original = ConsumerGroup("g", 0.0)
    edit = Edit()
    edit.of(original).promise("a", 5.0)
    assert "a" in edit.of(original).promised
    assert "a" not in original.promised


def test_group_is_copied_once_per_decision() -> None:
    edit, original = Edit(), ConsumerGroup("g", 0.0)
    assert edit.of(original) is edit.of(original)


def test_group_without_members_is_removed() -> None:
    edit = Edit()
    edit.of(ConsumerGroup("g", 0.0))
    assert edit.soft == (GroupReplaced("g", None),)


def test_deadline_changes_follow_group_replacements() -> None:
    edit = Edit()
    copied = edit.of(ConsumerGroup("g", 0.0))
    copied.promise("a", 5.0)
    replaced, deadline = edit.soft
    assert replaced == GroupReplaced("g", copied)
    assert deadline == DeadlineSet(MEMBER_SESSION, 5.0)


def test_replies_keep_their_order() -> None:
    edit = Edit()
    replies = [Synced("consumer", "range", part) for part in (b"1", b"2")]
    edit.replies += [(7, replies[0]), (3, replies[1])]
    assert edit.effects == (DeferredReply(7, replies[0]), DeferredReply(3, replies[1]))
