"""Offsets of consumer groups, committed and pending in transactions."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.group_coordinator.core.consumer_groups import offsets as pending
from sharebroker_server.group_coordinator.core.consumer_groups.commands import (
    CommitInTransaction,
    CommitOffsets,
    Committed,
    CompleteTransaction,
    ConsumersDescription,
    DescribeConsumers,
    FetchOffsets,
    ForgetOffsets,
    GroupOffsets,
    Join,
    Leaver,
    ListConsumers,
    MemberIdentity,
)
from sharebroker_server.group_coordinator.core.consumer_groups.offsets import UnverifiedOffsetsError
from sharebroker_server.group_coordinator.core.share_groups.commands import DeleteGroup, DeletePlan, Heartbeat
from tests.unit.group_coordinator.consumer_harness import AT, REBALANCE, SESSION, ConsumerHarness


@pytest.fixture
def group() -> ConsumerHarness:
    return ConsumerHarness()


def test_offsets_survive_members_and_fail_over(group: ConsumerHarness) -> None:
    generation = group.stable("a")
    group.commit(5, "a", generation)
    group.commit(7, "a", generation)
    assert group.leave(Leaver("a")) == [None]
    group.reload()
    assert group.committed() == {AT: 7}
    assert group.described() == ConsumersDescription("Empty", "consumer", "", ())
    assert group.request(ListConsumers(), dict) == {"g": ("Empty", "consumer")}
    group.commit(3)  # an administrator
    assert group.committed() == {AT: 3}
    assert group.request(FetchOffsets("other"), GroupOffsets) == ({}, frozenset())
    group.stable("b")
    assert group.request(ListConsumers(), dict) == {"g": ("Stable", "consumer")}


BESIDE = TopicIdPartition("id-a", 1)
P, Q = 70, 71
"""Producer ids."""

DAY = 24 * 3600.0
NO_MEMBER = MemberIdentity("g", -1, "")


def offsets(offset: int, *partitions: TopicIdPartition, text: str = "") -> dict[TopicIdPartition, Committed]:
    return dict.fromkeys(partitions or (AT,), Committed(offset, 2, text))


def add(
    group: ConsumerHarness,
    producer: int,
    kept: dict[TopicIdPartition, Committed],
    *,
    epoch: int = 0,
    identity: MemberIdentity = NO_MEMBER,
    coordinator: int | None = 5,
) -> dict[TopicIdPartition, KafkaError]:
    refused: dict[TopicIdPartition, KafkaError] = group.request(
        CommitInTransaction(identity, producer, epoch, kept, coordinator), dict
    )
    return refused


def end(group: ConsumerHarness, producer: int, *, commit: bool, epoch: int = 0, coordinator: int = 5) -> None:
    group.send(CompleteTransaction(producer, epoch, coordinator, commit))


def unstable(group: ConsumerHarness, group_id: str = "g") -> set[TopicIdPartition]:
    return set(group.request(FetchOffsets(group_id), GroupOffsets).unstable)


@pytest.mark.parametrize(("commit", "after"), [(True, {AT: 7, BESIDE: 7}), (False, {AT: 3})])
def test_pending_offsets_become_effective_with_the_commit(
    group: ConsumerHarness, commit: bool, after: dict[TopicIdPartition, int]
) -> None:
    group.commit(3)
    assert add(group, P, offsets(7, AT, BESIDE)) == {}
    assert (group.committed(), unstable(group)) == ({AT: 3}, {AT, BESIDE})
    group.reload()
    assert unstable(group) == {AT, BESIDE}
    end(group, P, commit=commit)
    assert (group.committed(), unstable(group)) == (after, set())
    end(group, P, commit=not commit)  # a repeated or a contrary marker
    assert group.committed() == after
    group.reload()
    assert group.committed() == after


def test_transaction_end_is_one_record_for_all_groups(group: ConsumerHarness) -> None:
    add(group, P, offsets(1, AT, BESIDE))
    add(group, P, offsets(2), identity=MemberIdentity("h", -1, ""), coordinator=None)
    add(group, Q, offsets(9), identity=MemberIdentity("h", -1, ""))
    before = len(group.log)
    end(group, P, commit=True)
    del group.log[before + 1 :]  # the same offsets, for readers of the log
    group.reload()
    assert (group.committed("g"), group.committed("h")) == ({AT: 1, BESIDE: 1}, {AT: 2})
    assert (unstable(group, "g"), unstable(group, "h")) == (set(), {AT})


def test_first_offsets_of_a_transaction_need_confirmation(group: ConsumerHarness) -> None:
    first = CommitInTransaction(NO_MEMBER, P, 0, offsets(1))
    refusal = group.refuses(first)
    assert isinstance(refusal, UnverifiedOffsetsError)
    assert refusal.code is ErrorCode.INVALID_TXN_STATE
    add(group, P, offsets(1))
    assert group.request(CommitInTransaction(NO_MEMBER, P, 0, offsets(2)), dict) == {}
    end(group, P, commit=True)
    assert group.committed() == {AT: 2}
    assert isinstance(group.refuses(first), UnverifiedOffsetsError)


@pytest.mark.parametrize(
    ("epoch", "code"), [(3, ErrorCode.INVALID_PRODUCER_EPOCH), (5, ErrorCode.CONCURRENT_TRANSACTIONS)]
)
def test_a_producer_commits_in_one_epoch_at_a_time(
    group: ConsumerHarness, epoch: int, code: ErrorCode
) -> None:
    add(group, P, offsets(1), epoch=4)
    assert group.refuses(CommitInTransaction(NO_MEMBER, P, epoch, offsets(2), 5)).code is code


@pytest.mark.parametrize(
    ("epoch", "coordinator", "code"),
    [
        (3, 9, ErrorCode.INVALID_PRODUCER_EPOCH),
        (4, 4, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
        (4, 5, None),
        (5, 6, None),
    ],
)
def test_stale_end_is_rejected(
    group: ConsumerHarness, epoch: int, coordinator: int, code: ErrorCode | None
) -> None:
    add(group, P, offsets(1), epoch=4)
    command = CompleteTransaction(P, epoch, coordinator, commit=True)
    if code is None:
        group.send(command)
        assert group.committed() == {AT: 1}
    else:
        assert group.refuses(command).code is code
        assert unstable(group) == {AT}


def test_unconfirmed_commit_keeps_the_coordinator_epoch(group: ConsumerHarness) -> None:
    add(group, P, offsets(1), coordinator=-1)
    end(group, P, commit=True, coordinator=1)
    assert group.committed() == {AT: 1}


@pytest.mark.parametrize("order", [(P, Q), (Q, P)])
def test_offset_of_the_last_writing_producer_wins(group: ConsumerHarness, order: tuple[int, int]) -> None:
    add(group, P, offsets(1))
    add(group, Q, offsets(2))
    for producer in order:
        end(group, producer, commit=True)
    assert group.committed() == {AT: 2}


def test_rewritten_pending_offset_is_the_last(group: ConsumerHarness) -> None:
    add(group, P, offsets(1))
    add(group, Q, offsets(2))
    add(group, P, offsets(3))
    end(group, P, commit=True)
    assert (group.committed(), unstable(group)) == ({AT: 3}, set())
    end(group, Q, commit=True)
    assert group.committed() == {AT: 3}


def test_aborted_offset_of_the_last_writer_is_ignored(group: ConsumerHarness) -> None:
    add(group, P, offsets(1))
    add(group, Q, offsets(2))
    end(group, Q, commit=False)
    end(group, P, commit=True)
    assert group.committed() == {AT: 1}


def test_commit_outside_transactions_drops_pending_offsets(group: ConsumerHarness) -> None:
    add(group, P, offsets(1, AT, BESIDE))
    group.commit(9)
    assert unstable(group) == {BESIDE}
    end(group, P, commit=True)
    assert group.committed() == {AT: 9, BESIDE: 1}


def test_transactional_commit_requires_membership(group: ConsumerHarness) -> None:
    def refusal(identity: MemberIdentity) -> ErrorCode:
        return group.refuses(CommitInTransaction(identity, P, 0, offsets(1), 5)).code

    assert refusal(MemberIdentity("g", 3, "a")) is ErrorCode.GROUP_ID_NOT_FOUND
    assert refusal(MemberIdentity("", -1, "")) is ErrorCode.INVALID_GROUP_ID
    generation = group.stable("a")
    assert refusal(MemberIdentity("g", generation + 1, "a")) is ErrorCode.ILLEGAL_GENERATION
    assert refusal(MemberIdentity("g", -1, "a")) is ErrorCode.ILLEGAL_GENERATION
    assert refusal(MemberIdentity("g", generation, "b")) is ErrorCode.UNKNOWN_MEMBER_ID
    assert refusal(MemberIdentity("g", -1, "", "i")) is ErrorCode.UNKNOWN_MEMBER_ID
    add(group, P, offsets(1), identity=MemberIdentity("g", generation, "a"))
    add(group, P, offsets(2))  # a producer without a member id
    group.join("a", fresh="a")
    add(
        group, P, offsets(3), identity=MemberIdentity("g", generation + 1, "a")
    )  # before it has its assignment
    promised = Join("x", "", "x", SESSION, REBALANCE, "consumer", (("range", b""),), 1, must_be_known=True)
    group.refuses(promised)
    add(group, P, offsets(4), identity=MemberIdentity("x", -1, "y"))
    end(group, P, commit=True)
    assert (group.committed(), group.committed("x")) == ({AT: 3}, {AT: 4})


def test_oversized_metadata_is_rejected_alone() -> None:
    group = ConsumerHarness("offset.metadata.max.bytes=4")
    refused = add(group, P, {AT: Committed(1, metadata="é" * 3), BESIDE: Committed(2, metadata="éé")})
    assert {some: error.code for some, error in refused.items()} == {AT: ErrorCode.OFFSET_METADATA_TOO_LARGE}
    assert unstable(group) == {BESIDE}


def test_group_with_pending_offsets_only_exists(group: ConsumerHarness) -> None:
    add(group, P, offsets(1))
    assert group.described().state == "Empty"
    assert group.request(ListConsumers(), dict) == {"g": ("Empty", "consumer")}
    beat = Heartbeat("g", "m", 0, ("a",))
    assert group.refuses(beat).code is ErrorCode.GROUP_ID_NOT_FOUND
    end(group, P, commit=False)
    assert group.refuses(DescribeConsumers("g")).code is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_share_group_commits_nothing(group: ConsumerHarness) -> None:
    group.send(Heartbeat("s", "m", 0, ("a",)))
    identity = MemberIdentity("s", -1, "")
    assert (
        group.refuses(CommitInTransaction(identity, P, 0, offsets(1), 5)).code is ErrorCode.GROUP_ID_NOT_FOUND
    )


@pytest.mark.parametrize("whole", [True, False])
def test_deleted_pending_offset_is_not_committed(group: ConsumerHarness, whole: bool) -> None:
    group.commit(1)
    add(group, P, offsets(5, AT, BESIDE))
    if whole:
        group.request(DeleteGroup("g"), DeletePlan)
    else:
        group.send(ForgetOffsets("g", frozenset({AT, BESIDE})))
    assert (group.committed(), unstable(group)) == ({}, set())
    end(group, P, commit=True)
    assert group.committed() == {}


def test_group_is_deletable_with_transactions_but_not_with_members(group: ConsumerHarness) -> None:
    generation = group.stable("a")
    add(group, P, offsets(5), identity=MemberIdentity("g", generation, "a"))
    assert group.refuses(DeleteGroup("g")).code is ErrorCode.NON_EMPTY_GROUP
    group.leave(Leaver("a"))
    assert group.request(DeleteGroup("g"), DeletePlan).partitions == frozenset()


def test_an_old_offset_stays_while_a_transaction_may_replace_it(group: ConsumerHarness) -> None:
    group.send(CommitOffsets(NO_MEMBER, offsets(5, AT, BESIDE)))
    add(group, P, offsets(6))
    group.pass_time(8 * DAY)
    assert (group.committed(), unstable(group)) == ({AT: 5}, {AT})
    end(group, P, commit=False)
    group.pass_time(3600)
    assert group.committed() == {}
    group.pass_time(3600)
    assert group.machine.next_deadline() is None


def test_offsets_of_deleted_topics_are_dropped(group: ConsumerHarness) -> None:
    gone = TopicIdPartition(group.cluster.create("gone", 1), 0)
    add(group, P, offsets(6, gone))
    group.cluster.delete("gone")
    group.reload()
    group.pass_time(3600)
    assert unstable(group) == set()


@pytest.mark.parametrize(
    ("name", "most"), [("MOST_OF_A_PRODUCER", 2), ("MOST_TEXT", 4), ("MOST_OF_A_GROUP", 2)]
)
def test_pending_offsets_and_metadata_are_bounded(
    group: ConsumerHarness, name: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending, name, most)
    add(group, P, offsets(1, AT, BESIDE, text="ab"))
    add(group, P, offsets(2, AT, BESIDE, text="ba"))  # in their place
    more = CommitInTransaction(NO_MEMBER, P, 0, offsets(3, TopicIdPartition("id-a", 2), text="c"))
    refusal = group.refuses(more)
    assert refusal.code is ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    assert unstable(group) == {AT, BESIDE}


@pytest.mark.slow
def test_pending_offsets_survive_the_trimming_of_the_log(group: ConsumerHarness) -> None:
    add(group, P, offsets(1))
    add(group, Q, offsets(2, BESIDE))
    end(group, Q, commit=True)
    busy = MemberIdentity("busy", -1, "")
    for offset in range(1500):
        group.send(CommitOffsets(busy, offsets(offset)))
    assert group.machine.trim_before() > 5
    group.reload()
    assert (group.committed(), unstable(group)) == ({BESIDE: 2}, {AT})
    end(group, P, commit=True)
    assert group.committed() == {AT: 1, BESIDE: 2}


def test_a_log_that_ends_with_an_abort_may_be_trimmed_to_its_end(group: ConsumerHarness) -> None:
    add(group, P, offsets(1))
    end(group, P, commit=False)
    assert group.machine.trim_before() == len(group.log) + 1
