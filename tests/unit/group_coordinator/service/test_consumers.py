"""Consumer groups: members come to the same generation, and offsets stay (Kafka: ClassicGroup)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.group_coordinator.core.commands import (
    AlterOffsets,
    DeleteGroup,
    DeletePlan,
    Heartbeat,
)
from sharebroker_server.group_coordinator.core.consumers.commands import (
    CommitOffsets,
    Committed,
    ConsumersDescription,
    DescribeConsumers,
    DescribedConsumer,
    FetchOffsets,
    ForgetOffsets,
    Join,
    Joined,
    KeptOffsets,
    Leave,
    Leaver,
    ListConsumers,
    MemberOf,
    StayMember,
    Sync,
    Synced,
)
from tests.unit.group_coordinator.consumers import AT, REBALANCE, SESSION, Consumers

DAY = 24 * 3600.0


@pytest.fixture
def group() -> Consumers:
    return Consumers()


def test_a_lone_member_leads_and_gets_what_it_assigns(group: Consumers) -> None:
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
    assert group.synced(group.sync("m", 1)) == "all of it", "asked again, it hears the same"


def test_a_member_that_comes_makes_all_join_again(group: Consumers) -> None:
    group.stable("a")
    coming = group.join("", fresh="b")
    assert group.waits(coming)
    assert group.described().state == "PreparingRebalance"
    assert group.refuses(StayMember(MemberOf("g", 1, "a"))).code is ErrorCode.REBALANCE_IN_PROGRESS
    assert group.refuses(Sync(MemberOf("g", 1, "a"), {}, 99)).code is ErrorCode.REBALANCE_IN_PROGRESS
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


def test_a_member_that_leaves_makes_the_others_join_again(group: Consumers) -> None:
    generation = group.stable("a", "b", "c")
    assert group.leave(Leaver("a")) == [None]
    assert group.refuses(StayMember(MemberOf("g", generation, "b"))).code is ErrorCode.REBALANCE_IN_PROGRESS
    one, other = group.join("c"), group.join("b")
    assert group.joined(one).leader == "b", "of those that joined, the one that has been here longest"
    assert group.joined(other).generation == generation + 1
    assert group.leave(Leaver("a"), Leaver("c"), Leaver("b")) == [ErrorCode.UNKNOWN_MEMBER_ID, None, None]
    assert group.refuses(DescribeConsumers("g")).code is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_silent_member_is_removed(group: Consumers) -> None:
    generation = group.stable("a", "b")
    group.pass_time(SESSION - 1)
    group.stay("a", generation)
    group.pass_time(1)
    assert [one.member_id for one in group.described().members] == ["a"]
    assert group.refuses(StayMember(MemberOf("g", generation, "b"))).code is ErrorCode.UNKNOWN_MEMBER_ID
    group.pass_time(SESSION)
    assert group.refuses(DescribeConsumers("g")).code is ErrorCode.GROUP_ID_NOT_FOUND


def test_who_waits_needs_no_heartbeat_and_who_does_not_join_again_is_out(group: Consumers) -> None:
    generation = group.stable("a", "b")
    waiting = group.join("a", "range", "sticky")  # it knows another assignor now
    for _ in range(7):
        group.pass_time(SESSION - 1)
        if group.described().state == "PreparingRebalance":
            with pytest.raises(KafkaError):
                group.stay("b", generation)
    assert group.joined(waiting).generation == generation + 1
    assert [one.member_id for one in group.described().members] == ["a"]


def test_members_that_never_sync_are_removed(group: Consumers) -> None:
    group.stable("a")
    coming, again = group.join("", fresh="b"), group.join("a")
    assert group.joined(again).leader == "a"
    generation = group.joined(coming).generation
    waiting = group.sync("b", generation)
    for _ in range(int(REBALANCE // SESSION) + 1):  # the leader lives, and does not assign
        group.pass_time(SESSION - 1)
        if group.waits(waiting):
            group.stay("a", generation)
    assert group.refused(waiting) is ErrorCode.REBALANCE_IN_PROGRESS
    assert [one.member_id for one in group.described().members] == ["b"]
    assert group.joined(group.join("b")).leader == "b"


def test_an_answer_that_was_lost_is_given_again(group: Consumers) -> None:
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


def test_a_leader_that_joins_again_wants_to_assign_anew(group: Consumers) -> None:
    generation = group.stable("a", "b")
    again = group.join("a")
    assert group.waits(again)
    group.join("b")
    assert group.joined(again).generation == generation + 1


def test_the_assignor_that_most_prefer_of_those_all_know(group: Consumers) -> None:
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


def test_a_member_has_to_know_its_id_before_it_joins(group: Consumers) -> None:
    asked = Join("g", "", "given", SESSION, REBALANCE, "consumer", (("range", b""),), 1, must_be_known=True)
    error = group.refuses(asked)
    assert (error.code, error.metadata["member_id"]) == (ErrorCode.MEMBER_ID_REQUIRED, "given")
    assert group.joined(group.join("given")).leader == "given"
    assert group.refuses(
        Join("g", "made up", "", SESSION, REBALANCE, "consumer", (("range", b""),), 1)
    ).code is (ErrorCode.UNKNOWN_MEMBER_ID)


def test_who_does_not_come_with_its_id_is_not_waited_for_long(group: Consumers) -> None:
    asked = Join("g", "", "given", SESSION, REBALANCE, "consumer", (("range", b""),), 1, must_be_known=True)
    group.refuses(asked)
    waiting = group.join("", fresh="a")
    assert group.waits(waiting), "the other one may come any moment"
    group.pass_time(SESSION)
    assert group.joined(waiting).leader == "a"
    group.refuses(asked)
    assert group.leave(Leaver("given")) == [None]


def test_an_empty_group_may_wait_for_more_than_one() -> None:
    group = Consumers("group.initial.rebalance.delay.ms=3000")
    first, second = group.join("", fresh="a"), group.join("", fresh="b")
    assert group.waits(first)
    group.pass_time(3)
    assert group.joined(first).generation == group.joined(second).generation == 1


def test_a_fixed_member_comes_back_to_its_place(group: Consumers) -> None:
    assert group.joined(group.join("", fresh="a", instance="one")).leader == "a"
    coming, again = group.join("", fresh="b", instance="two"), group.join("a", instance="one")
    generation = group.joined(coming).generation
    group.joined(again)
    group.sync("a", generation, "one", a="0", b="1")
    # "two" starts anew: it knows what it knew, and nobody has to join again.
    asked = group.join("", fresh="b2", instance="two", protocols=(("range", b"range of b"),))
    assert group.joined(asked).generation == generation
    assert group.synced(group.sync("b2", generation, "two")) == "1"
    fenced = StayMember(MemberOf("g", generation, "b", "two"))
    assert group.refuses(fenced).code is ErrorCode.FENCED_INSTANCE_ID
    assert group.refuses(StayMember(MemberOf("g", generation, "b"))).code is ErrorCode.UNKNOWN_MEMBER_ID
    other = StayMember(MemberOf("g", generation, "b2", "three"))
    assert group.refuses(other).code is ErrorCode.UNKNOWN_MEMBER_ID
    # The leader starts anew: it will want to assign.
    waiting = group.join("", fresh="a2", instance="one")
    assert group.waits(waiting)
    group.join("b2", instance="two")
    assert group.joined(waiting).leader == "a2"
    assert group.leave(Leaver("", "one"), Leaver("", "nobody")) == [None, ErrorCode.UNKNOWN_MEMBER_ID]


def test_a_fixed_member_that_was_replaced_hears_so_while_it_waits(group: Consumers) -> None:
    group.stable("a")
    waiting = group.join("", fresh="b", instance="one")
    newer = group.join("", fresh="b2", instance="one")
    assert group.refused(waiting) is ErrorCode.FENCED_INSTANCE_ID
    again = group.join("a")
    assert group.joined(newer).generation == group.joined(again).generation


def test_fixed_members_that_do_not_join_again_stay_as_long_as_they_live(group: Consumers) -> None:
    group.joined(group.join("", fresh="a", instance="one", session_timeout=100.0))
    waiting = group.join("", fresh="b")
    group.pass_time(REBALANCE)
    assert group.joined(waiting).leader == "b"
    assert {one.member_id for one in group.described().members} == {"a", "b"}
    group.leave(Leaver("b"))
    assert group.described().state == "PreparingRebalance"
    group.pass_time(REBALANCE)
    assert group.refuses(DescribeConsumers("g")).code is ErrorCode.GROUP_ID_NOT_FOUND


def test_nobody_waits_for_fixed_members_alone(group: Consumers) -> None:
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
        (1, "nobody", ErrorCode.UNKNOWN_MEMBER_ID),
        (-1, "", ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_only_members_of_the_generation_may(
    group: Consumers, generation: int, member: str, code: ErrorCode
) -> None:
    group.stable("a")
    who = MemberOf("g", generation, member)
    for command in (StayMember(who), Sync(who, {}, 99), CommitOffsets(who, {AT: Committed(1)})):
        assert group.refuses(command).code is code


def test_a_member_and_its_group_agree_on_the_assignor(group: Consumers) -> None:
    generation = group.stable("a")
    who = MemberOf("g", generation, "a")
    for kind, name in (("connect", None), (None, "sticky")):
        error = group.refuses(Sync(who, {}, 99, kind, name))
        assert error.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("command", [StayMember, lambda who: Sync(who, {}, 1), lambda _: Leave("none", ())])
def test_a_group_that_is_not_there_has_no_members(group: Consumers, command: object) -> None:
    assert callable(command)
    assert group.refuses(command(MemberOf("none", 1, "a"))).code is ErrorCode.UNKNOWN_MEMBER_ID


def test_offsets_outlive_members_and_coordinators(group: Consumers) -> None:
    generation = group.stable("a")
    group.commit(5, "a", generation)
    group.commit(7, "a", generation)
    assert group.leave(Leaver("a")) == [None]
    group.reload()
    assert group.committed() == {AT: 7}
    assert group.described() == ConsumersDescription("Empty", "consumer", "", ())
    assert group.ask(ListConsumers(), dict) == {"g": ("Empty", "consumer")}
    group.commit(3)  # an administrator
    assert group.committed() == {AT: 3}
    assert group.ask(FetchOffsets("other"), KeptOffsets) == ({}, frozenset())
    group.stable("b")
    assert group.ask(ListConsumers(), dict) == {"g": ("Stable", "consumer")}


def test_who_may_commit(group: Consumers) -> None:
    ahead = CommitOffsets(MemberOf("g", 3, "a"), {AT: Committed(1)})
    assert group.refuses(ahead).code is ErrorCode.ILLEGAL_GENERATION
    generation = group.stable("a")
    group.join("", fresh="b")
    group.commit(1, "a", generation)  # before it joins again it says how far it came
    group.join("a")
    early = CommitOffsets(MemberOf("g", generation + 1, "a"), {AT: Committed(2)})
    assert group.refuses(early).code is ErrorCode.REBALANCE_IN_PROGRESS
    asked = Join("x", "", "x", SESSION, REBALANCE, "consumer", (("range", b""),), 1, must_be_known=True)
    group.refuses(asked)
    group.tell(CommitOffsets(MemberOf("x", -1, ""), {AT: Committed(1)}))
    assert group.committed("x") == {AT: 1}


def test_a_long_text_is_refused_by_itself() -> None:
    group = Consumers("offset.metadata.max.bytes=4")
    other = TopicIdPartition("id-a", 1)
    kept = {AT: Committed(1, metadata="é" * 3), other: Committed(2, metadata="éé")}
    refused = group.ask(CommitOffsets(MemberOf("g", -1, ""), kept), dict)
    assert {some: error.code for some, error in refused.items()} == {AT: ErrorCode.OFFSET_METADATA_TOO_LARGE}
    assert group.committed() == {other: 2}


def test_offsets_are_forgotten(group: Consumers) -> None:
    generation = group.stable("a")
    group.commit(5, "a", generation)
    forget = ForgetOffsets("g", frozenset({AT, TopicIdPartition("id-a", 3)}))
    assert group.refuses(forget).code is ErrorCode.NON_EMPTY_GROUP
    assert group.refuses(DeleteGroup("g")).code is ErrorCode.NON_EMPTY_GROUP
    group.leave(Leaver("a"))
    group.tell(forget)
    assert group.committed() == {}
    assert group.refuses(forget).code is ErrorCode.GROUP_ID_NOT_FOUND
    group.commit(1)
    assert group.ask(DeleteGroup("g"), DeletePlan).partitions == frozenset()
    assert group.refuses(DescribeConsumers("g")).code is ErrorCode.GROUP_ID_NOT_FOUND
    assert group.refuses(DeleteGroup("g")).code is ErrorCode.GROUP_ID_NOT_FOUND


def test_offsets_of_a_group_without_members_are_forgotten_in_the_end(group: Consumers) -> None:
    group.commit(5)
    group.pass_time(7 * DAY - 1)
    assert group.committed() == {AT: 5}
    group.pass_time(3600)
    assert group.committed() == {}
    group.pass_time(3600)
    assert group.machine.next_deadline() is None


def test_offsets_of_members_and_of_others_stay_those_of_deleted_topics_do_not(group: Consumers) -> None:
    gone = TopicIdPartition(group.cluster.create("gone", 1), 0)
    generation = group.stable("a")
    who = MemberOf("g", generation, "a")
    group.tell(CommitOffsets(who, {AT: Committed(1), gone: Committed(2)}))
    group.cluster.delete("gone")
    for _ in range(80):
        group.pass_time(SESSION - 1)
        group.stay("a", generation)
    assert group.committed() == {AT: 1}
    assert group.machine.next_deadline() is not None


def test_a_group_is_of_one_kind(group: Consumers) -> None:
    group.commit(1)
    share = Heartbeat("g", "m", 0, ("a",))
    assert group.refuses(share).code is ErrorCode.GROUP_ID_NOT_FOUND
    assert group.refuses(AlterOffsets("g", {("a", 0): 0})).code is ErrorCode.GROUP_ID_NOT_FOUND
    group.tell(Heartbeat("s", "m", 0, ("a",)))
    joins = Join("s", "", "m", SESSION, REBALANCE, "consumer", (("range", b""),), 1)
    assert group.refuses(joins).code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    commits = CommitOffsets(MemberOf("s", -1, ""), {AT: Committed(1)})
    assert group.refuses(commits).code is ErrorCode.GROUP_ID_NOT_FOUND
    assert group.refuses(DescribeConsumers("s")).code is ErrorCode.GROUP_ID_NOT_FOUND


def test_bounds() -> None:
    group = Consumers("group.max.size=2", "group.share.max.groups=1")
    protocols = (("range", b""),)
    for timeout in (5.9, 1801.0):
        asked = Join("g", "", "a", timeout, REBALANCE, "consumer", protocols, 1)
        assert group.refuses(asked).code is ErrorCode.INVALID_SESSION_TIMEOUT
    group.stable("a", "b")
    third = Join("g", "", "c", SESSION, REBALANCE, "consumer", protocols, 1)
    assert group.refuses(third).code is ErrorCode.GROUP_MAX_SIZE_REACHED
    other = Join("h", "", "c", SESSION, REBALANCE, "consumer", protocols, 1)
    assert group.refuses(other).code is ErrorCode.GROUP_MAX_SIZE_REACHED
    commits = CommitOffsets(MemberOf("h", -1, ""), {AT: Committed(1)})
    assert group.refuses(commits).code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert group.refuses(Join("", "", "c", SESSION, REBALANCE, "consumer", protocols, 1)).code is (
        ErrorCode.INVALID_GROUP_ID
    )


def test_the_oldest_form_has_no_rebalance_timeout(group: Consumers) -> None:
    group.joined(group.join("", fresh="a", rebalance_timeout=-0.001, session_timeout=30.0))
    waiting = group.join("", fresh="b", rebalance_timeout=-0.001)
    group.pass_time(29)
    assert group.waits(waiting)
    group.pass_time(1)
    assert group.joined(waiting).leader == "b"


def test_offsets_survive_the_trimming_of_the_log(group: Consumers) -> None:
    group.commit(1)
    for offset in range(1500):
        group.tell(CommitOffsets(MemberOf("busy", -1, ""), {AT: Committed(offset)}))
    assert group.machine.trim_before() > 1
    group.reload()
    assert (group.committed(), group.committed("busy")) == ({AT: 1}, {AT: 1499})


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


@settings(max_examples=200, deadline=None)
@given(Steps)
def test_whatever_happens_everybody_is_answered_and_a_generation_has_one_leader(
    steps: list[tuple[str, object, object]],
) -> None:
    group = Consumers()
    generations: dict[str, int] = {}
    leaders: dict[int, str] = {}
    waiting: dict[int, str] = {}

    def look() -> None:
        for ticket, member in list(waiting.items()):
            answer = group.answers.pop(ticket, None)
            if answer is None:
                continue
            del waiting[ticket]
            if isinstance(answer, Joined):
                assert answer.member_id == member
                generations[member] = answer.generation
                assert leaders.setdefault(answer.generation, answer.leader) == answer.leader
            else:
                assert isinstance(answer, Synced | KafkaError)
        assert not group.answers, "nobody is answered twice"
        if not described(group):
            leaders.clear()  # the next one is another group

    for kind, who, more in steps:
        name = str(who)
        try:
            if kind == "wait":
                assert isinstance(who, float)
                group.pass_time(who)
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
    assert not waiting, "nobody waits for ever"
    assert not described(group), "nobody stays who is not heard of"


def described(group: Consumers) -> tuple[DescribedConsumer, ...]:
    try:
        return group.described().members
    except KafkaError:
        return ()
