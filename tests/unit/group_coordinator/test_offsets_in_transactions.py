"""Offsets that consumer groups commit in transactions (Kafka: OffsetMetadataManager)."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.group_coordinator.core.commands import DeleteGroup, DeletePlan, Heartbeat
from sharebroker_server.group_coordinator.core.consumers import pending
from sharebroker_server.group_coordinator.core.consumers.commands import (
    CommitInTransaction,
    CommitOffsets,
    Committed,
    CompleteTransaction,
    DescribeConsumers,
    FetchOffsets,
    ForgetOffsets,
    Join,
    KeptOffsets,
    Leaver,
    ListConsumers,
    MemberOf,
)
from sharebroker_server.group_coordinator.core.consumers.pending import UnverifiedError
from tests.unit.group_coordinator.consumers import AT, REBALANCE, SESSION, Consumers

BESIDE = TopicIdPartition("id-a", 1)
P, Q = 70, 71
"""Producer ids."""

DAY = 24 * 3600.0
NOBODY = MemberOf("g", -1, "")


@pytest.fixture
def group() -> Consumers:
    return Consumers()


def offsets(offset: int, *partitions: TopicIdPartition, text: str = "") -> dict[TopicIdPartition, Committed]:
    return dict.fromkeys(partitions or (AT,), Committed(offset, 2, text))


def add(
    group: Consumers,
    producer: int,
    kept: dict[TopicIdPartition, Committed],
    *,
    epoch: int = 0,
    who: MemberOf = NOBODY,
    coordinator: int | None = 5,
) -> dict[TopicIdPartition, KafkaError]:
    refused: dict[TopicIdPartition, KafkaError] = group.ask(
        CommitInTransaction(who, producer, epoch, kept, coordinator), dict
    )
    return refused


def end(group: Consumers, producer: int, *, commit: bool, epoch: int = 0, coordinator: int = 5) -> None:
    group.tell(CompleteTransaction(producer, epoch, coordinator, commit))


def unstable(group: Consumers, group_id: str = "g") -> set[TopicIdPartition]:
    return set(group.ask(FetchOffsets(group_id), KeptOffsets).unstable)


@pytest.mark.parametrize(("commit", "after"), [(True, {AT: 7, BESIDE: 7}), (False, {AT: 3})])
def test_offsets_count_when_their_transaction_is_committed(
    group: Consumers, commit: bool, after: dict[TopicIdPartition, int]
) -> None:
    group.commit(3)
    assert add(group, P, offsets(7, AT, BESIDE)) == {}
    assert (group.committed(), unstable(group)) == ({AT: 3}, {AT, BESIDE})
    group.reload()
    assert unstable(group) == {AT, BESIDE}
    end(group, P, commit=commit)
    assert (group.committed(), unstable(group)) == (after, set())
    end(group, P, commit=not commit)  # a marker that comes again, or another one's
    assert group.committed() == after
    group.reload()
    assert group.committed() == after


def test_an_end_is_one_record_for_all_groups_of_the_shard(group: Consumers) -> None:
    add(group, P, offsets(1, AT, BESIDE))
    add(group, P, offsets(2), who=MemberOf("h", -1, ""), coordinator=None)
    add(group, Q, offsets(9), who=MemberOf("h", -1, ""))
    before = len(group.log)
    end(group, P, commit=True)
    del group.log[before + 1 :]  # the same offsets, for who reads the log
    group.reload()
    assert (group.committed("g"), group.committed("h")) == ({AT: 1, BESIDE: 1}, {AT: 2})
    assert (unstable(group, "g"), unstable(group, "h")) == (set(), {AT})


def test_the_first_offsets_of_a_transaction_have_to_be_confirmed(group: Consumers) -> None:
    first = CommitInTransaction(NOBODY, P, 0, offsets(1))
    refusal = group.refuses(first)
    assert isinstance(refusal, UnverifiedError)
    assert refusal.code is ErrorCode.INVALID_TXN_STATE
    add(group, P, offsets(1))
    assert group.ask(CommitInTransaction(NOBODY, P, 0, offsets(2)), dict) == {}
    end(group, P, commit=True)
    assert group.committed() == {AT: 2}
    assert isinstance(group.refuses(first), UnverifiedError)


@pytest.mark.parametrize(
    ("epoch", "code"), [(3, ErrorCode.INVALID_PRODUCER_EPOCH), (5, ErrorCode.CONCURRENT_TRANSACTIONS)]
)
def test_a_producer_commits_in_one_epoch_at_a_time(group: Consumers, epoch: int, code: ErrorCode) -> None:
    add(group, P, offsets(1), epoch=4)
    assert group.refuses(CommitInTransaction(NOBODY, P, epoch, offsets(2), 5)).code is code


@pytest.mark.parametrize(
    ("epoch", "coordinator", "code"),
    [
        (3, 9, ErrorCode.INVALID_PRODUCER_EPOCH),
        (4, 4, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
        (4, 5, None),
        (5, 6, None),
    ],
)
def test_an_end_of_the_past_is_refused(
    group: Consumers, epoch: int, coordinator: int, code: ErrorCode | None
) -> None:
    add(group, P, offsets(1), epoch=4)
    asked = CompleteTransaction(P, epoch, coordinator, commit=True)
    if code is None:
        group.tell(asked)
        assert group.committed() == {AT: 1}
    else:
        assert group.refuses(asked).code is code
        assert unstable(group) == {AT}


def test_a_coordinator_that_was_not_asked_may_have_any_epoch(group: Consumers) -> None:
    add(group, P, offsets(1), coordinator=-1)
    end(group, P, commit=True, coordinator=1)
    assert group.committed() == {AT: 1}


@pytest.mark.parametrize("order", [(P, Q), (Q, P)])
def test_of_several_producers_the_one_that_wrote_last_counts(
    group: Consumers, order: tuple[int, int]
) -> None:
    add(group, P, offsets(1))
    add(group, Q, offsets(2))
    for producer in order:
        end(group, producer, commit=True)
    assert group.committed() == {AT: 2}


def test_what_is_written_again_is_the_last(group: Consumers) -> None:
    add(group, P, offsets(1))
    add(group, Q, offsets(2))
    add(group, P, offsets(3))
    end(group, P, commit=True)
    assert (group.committed(), unstable(group)) == ({AT: 3}, set())
    end(group, Q, commit=True)
    assert group.committed() == {AT: 3}


def test_who_wrote_last_and_aborted_does_not_count(group: Consumers) -> None:
    add(group, P, offsets(1))
    add(group, Q, offsets(2))
    end(group, Q, commit=False)
    end(group, P, commit=True)
    assert group.committed() == {AT: 1}


def test_what_is_committed_without_a_transaction_is_newer(group: Consumers) -> None:
    add(group, P, offsets(1, AT, BESIDE))
    group.commit(9)
    assert unstable(group) == {BESIDE}
    end(group, P, commit=True)
    assert group.committed() == {AT: 9, BESIDE: 1}


def test_who_may_commit_in_a_transaction(group: Consumers) -> None:
    def refusal(who: MemberOf) -> ErrorCode:
        return group.refuses(CommitInTransaction(who, P, 0, offsets(1), 5)).code

    assert refusal(MemberOf("g", 3, "a")) is ErrorCode.ILLEGAL_GENERATION
    assert refusal(MemberOf("", -1, "")) is ErrorCode.INVALID_GROUP_ID
    generation = group.stable("a")
    assert refusal(MemberOf("g", generation + 1, "a")) is ErrorCode.ILLEGAL_GENERATION
    assert refusal(MemberOf("g", -1, "a")) is ErrorCode.ILLEGAL_GENERATION
    assert refusal(MemberOf("g", generation, "b")) is ErrorCode.UNKNOWN_MEMBER_ID
    assert refusal(MemberOf("g", -1, "", "i")) is ErrorCode.UNKNOWN_MEMBER_ID
    add(group, P, offsets(1), who=MemberOf("g", generation, "a"))
    add(group, P, offsets(2))  # who does not say who it is
    group.join("a", fresh="a")
    add(group, P, offsets(3), who=MemberOf("g", generation + 1, "a"))  # before it knows its part
    promised = Join("x", "", "x", SESSION, REBALANCE, "consumer", (("range", b""),), 1, must_be_known=True)
    group.refuses(promised)
    add(group, P, offsets(4), who=MemberOf("x", -1, "y"))
    end(group, P, commit=True)
    assert (group.committed(), group.committed("x")) == ({AT: 3}, {AT: 4})


def test_a_long_text_is_refused_by_itself() -> None:
    group = Consumers("offset.metadata.max.bytes=4")
    refused = add(group, P, {AT: Committed(1, metadata="é" * 3), BESIDE: Committed(2, metadata="éé")})
    assert {some: error.code for some, error in refused.items()} == {AT: ErrorCode.OFFSET_METADATA_TOO_LARGE}
    assert unstable(group) == {BESIDE}


def test_a_group_is_there_for_the_sake_of_a_transaction(group: Consumers) -> None:
    add(group, P, offsets(1))
    assert group.described().state == "Empty"
    assert group.ask(ListConsumers(), dict) == {"g": ("Empty", "consumer")}
    beat = Heartbeat("g", "m", 0, ("a",))
    assert group.refuses(beat).code is ErrorCode.GROUP_ID_NOT_FOUND
    end(group, P, commit=False)
    assert group.refuses(DescribeConsumers("g")).code is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_share_group_commits_nothing(group: Consumers) -> None:
    group.tell(Heartbeat("s", "m", 0, ("a",)))
    who = MemberOf("s", -1, "")
    assert group.refuses(CommitInTransaction(who, P, 0, offsets(1), 5)).code is ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("whole", [True, False])
def test_what_is_deleted_is_not_committed_later(group: Consumers, whole: bool) -> None:
    group.commit(1)
    add(group, P, offsets(5, AT, BESIDE))
    if whole:
        group.ask(DeleteGroup("g"), DeletePlan)
    else:
        group.tell(ForgetOffsets("g", frozenset({AT, BESIDE})))
    assert (group.committed(), unstable(group)) == ({}, set())
    end(group, P, commit=True)
    assert group.committed() == {}


def test_members_keep_a_group_from_being_deleted_transactions_do_not(group: Consumers) -> None:
    generation = group.stable("a")
    add(group, P, offsets(5), who=MemberOf("g", generation, "a"))
    assert group.refuses(DeleteGroup("g")).code is ErrorCode.NON_EMPTY_GROUP
    group.leave(Leaver("a"))
    assert group.ask(DeleteGroup("g"), DeletePlan).partitions == frozenset()


def test_an_old_offset_stays_while_a_transaction_may_replace_it(group: Consumers) -> None:
    group.tell(CommitOffsets(NOBODY, offsets(5, AT, BESIDE)))
    add(group, P, offsets(6))
    group.pass_time(8 * DAY)
    assert (group.committed(), unstable(group)) == ({AT: 5}, {AT})
    end(group, P, commit=False)
    group.pass_time(3600)
    assert group.committed() == {}
    group.pass_time(3600)
    assert group.machine.next_deadline() is None


def test_offsets_of_deleted_topics_are_dropped(group: Consumers) -> None:
    gone = TopicIdPartition(group.cluster.create("gone", 1), 0)
    add(group, P, offsets(6, gone))
    group.cluster.delete("gone")
    group.reload()
    group.pass_time(3600)
    assert unstable(group) == set()


@pytest.mark.parametrize(
    ("name", "most"), [("MOST_OF_A_PRODUCER", 2), ("MOST_TEXT", 4), ("MOST_OF_A_GROUP", 2)]
)
def test_bounds(group: Consumers, name: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending, name, most)
    add(group, P, offsets(1, AT, BESIDE, text="ab"))
    add(group, P, offsets(2, AT, BESIDE, text="ba"))  # in their place
    more = CommitInTransaction(NOBODY, P, 0, offsets(3, TopicIdPartition("id-a", 2), text="c"))
    refusal = group.refuses(more)
    assert refusal.code is ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    assert unstable(group) == {AT, BESIDE}


def test_pending_offsets_survive_the_trimming_of_the_log(group: Consumers) -> None:
    add(group, P, offsets(1))
    add(group, Q, offsets(2, BESIDE))
    end(group, Q, commit=True)
    busy = MemberOf("busy", -1, "")
    for offset in range(1500):
        group.tell(CommitOffsets(busy, offsets(offset)))
    assert group.machine.trim_before() > 5
    group.reload()
    assert (group.committed(), unstable(group)) == ({BESIDE: 2}, {AT})
    end(group, P, commit=True)
    assert group.committed() == {AT: 1, BESIDE: 2}


def test_a_log_that_ends_with_an_abort_may_be_trimmed_to_its_end(group: Consumers) -> None:
    add(group, P, offsets(1))
    end(group, P, commit=False)
    assert group.machine.trim_before() == len(group.log) + 1
