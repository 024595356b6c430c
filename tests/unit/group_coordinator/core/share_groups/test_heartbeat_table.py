"""Every state of a group with every member epoch and subscription: accepted, unchanged, or rejected."""

from __future__ import annotations

from itertools import product

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.group_coordinator.core.share_groups.commands import Heartbeat, HeartbeatReply
from tests.testkit.tables import each
from tests.unit.group_coordinator.harness import FakeView, Harness

STATES = ("absent", "empty", "other member", "full", "member")
EPOCHS = (-2, -1, 0, 1, 2, 3, 4, 5)
TOPICS: tuple[tuple[str, ...] | None, ...] = (None, (), ("a",), ("a", "not there"))


def shard_in(state: str) -> Harness:
    """A group in a state; the member "m", where it is one, has epoch 4 and had epoch 3."""
    cluster = FakeView("group.share.max.size=2")
    cluster.create("a", 1)
    shard = Harness(cluster)
    if state == "empty":
        shard.join("x", "a")
        shard.beat("x", -1)
    elif state in ("other member", "full"):
        shard.join("x", "a")
        if state == "full":
            shard.join("y", "a")
    elif state == "member":
        shard.join("m", "a")
        shard.join("x", "a")
        assert shard.beat("m", 3).member_epoch == 4
    return shard


def expected(state: str, epoch: int, topics: tuple[str, ...] | None) -> ErrorCode:
    if epoch < -1 or (epoch == 0 and not topics):
        return ErrorCode.INVALID_REQUEST
    if epoch == 0:
        return ErrorCode.GROUP_MAX_SIZE_REACHED if state == "full" else ErrorCode.NONE
    if state == "absent":
        return ErrorCode.GROUP_ID_NOT_FOUND
    if state != "member":
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if epoch in (-1, 3, 4) else ErrorCode.FENCED_MEMBER_EPOCH


@each("state, epoch, topics", list(product(STATES, EPOCHS, TOPICS)))
def test_heartbeat_in_every_state_is_accepted_or_rejected(
    state: str, epoch: int, topics: tuple[str, ...] | None
) -> None:
    shard = shard_in(state)
    heartbeat = Heartbeat("g", "m", epoch, topics)
    code = expected(state, epoch, topics)
    if code is not ErrorCode.NONE:
        assert shard.refuses(heartbeat).code is code
        return
    reply = shard.request(heartbeat, HeartbeatReply)
    group = shard.group()
    if epoch == -1:
        assert "m" not in group.members
        assert reply.assignment is None
        return
    assert group.members["m"].epoch == reply.member_epoch == group.assignment_epoch == group.epoch
    # A member that sends epoch 3 has not received epoch 4.
    assert (reply.assignment is not None) == (epoch in (0, 3) or topics is not None)
    assert group.members["m"].profile.subscribed == frozenset(topics if topics is not None else ("a",))


@pytest.mark.parametrize("state", STATES)
def test_rejections_have_metadata(state: str) -> None:
    shard = shard_in(state)
    with pytest.raises(KafkaError) as caught:
        shard.machine.decide(Heartbeat("g", "m", 9), shard.now)
    assert caught.value.metadata.keys() <= {"group_id", "member_id", "member_epoch"}
    assert caught.value.metadata
