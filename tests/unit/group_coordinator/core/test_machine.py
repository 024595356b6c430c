"""Groups of both kinds in one shard, and the log that they share."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.group_coordinator.core.consumer_groups.commands import (
    CommitOffsets,
    Committed,
    DescribeConsumers,
    Join,
    MemberIdentity,
)
from sharebroker_server.group_coordinator.core.share_groups.commands import AlterOffsets, Heartbeat
from tests.unit.group_coordinator.consumer_harness import AT, REBALANCE, SESSION, ConsumerHarness


@pytest.fixture
def group() -> ConsumerHarness:
    return ConsumerHarness()


def test_a_group_is_of_one_kind(group: ConsumerHarness) -> None:
    group.commit(1)
    share = Heartbeat("g", "m", 0, ("a",))
    assert group.refuses(share).code is ErrorCode.GROUP_ID_NOT_FOUND
    assert group.refuses(AlterOffsets("g", {("a", 0): 0})).code is ErrorCode.GROUP_ID_NOT_FOUND
    group.send(Heartbeat("s", "m", 0, ("a",)))
    joins = Join("s", "", "m", SESSION, REBALANCE, "consumer", (("range", b""),), 1)
    assert group.refuses(joins).code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    commits = CommitOffsets(MemberIdentity("s", -1, ""), {AT: Committed(1)})
    assert group.refuses(commits).code is ErrorCode.GROUP_ID_NOT_FOUND
    assert group.refuses(DescribeConsumers("s")).code is ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.slow
def test_offsets_survive_the_trimming_of_the_log(group: ConsumerHarness) -> None:
    group.commit(1)
    for offset in range(1500):
        group.send(CommitOffsets(MemberIdentity("busy", -1, ""), {AT: Committed(offset)}))
    assert group.machine.trim_before() > 1
    group.reload()
    assert (group.committed(), group.committed("busy")) == ({AT: 1}, {AT: 1499})
