"""Validation of requests about groups."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.group_coordinator.core import validation
from sharebroker_server.group_coordinator.core.share_groups.commands import Heartbeat
from sharebroker_server.group_coordinator.core.share_groups.group import Member, Profile, ShareGroup

HEARTBEAT = Heartbeat("g", "m", 0, ("a",))
MEMBER = Member(Profile(None, "c", "h", frozenset()), epoch=5, previous_epoch=3)


@pytest.mark.parametrize(
    "heartbeat",
    [
        HEARTBEAT,
        replace(HEARTBEAT, member_id="m" * 36),
        replace(HEARTBEAT, member_epoch=3, topics=None),
        replace(HEARTBEAT, member_epoch=-1, topics=None),
        replace(HEARTBEAT, rack_id="r"),
    ],
)
def test_valid_heartbeats(heartbeat: Heartbeat) -> None:
    validation.check_heartbeat(heartbeat, BrokerConfig())
    with pytest.raises(KafkaError) as caught:
        validation.check_heartbeat(heartbeat, BrokerConfig.parse(["group.share.enable=false"]))
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    ("heartbeat", "field"),
    [
        (replace(HEARTBEAT, member_id=""), "member_id"),
        (replace(HEARTBEAT, member_id=" "), "member_id"),
        (replace(HEARTBEAT, member_id="m" * 37), "member_id"),
        (replace(HEARTBEAT, group_id=" "), "group_id"),
        (replace(HEARTBEAT, rack_id=""), "rack_id"),
        (replace(HEARTBEAT, topics=None), "subscribed_topic_names"),
        (replace(HEARTBEAT, topics=()), "subscribed_topic_names"),
        (replace(HEARTBEAT, member_epoch=-2), "member_epoch"),
    ],
)
def test_invalid_heartbeat_names_the_field(heartbeat: Heartbeat, field: str) -> None:
    with pytest.raises(KafkaError) as caught:
        validation.check_heartbeat(heartbeat, BrokerConfig())
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    assert [violation.field for violation in caught.value.violations] == [field]


@pytest.mark.parametrize("group_id", ["", "x" * 32_768])
def test_group_id_is_not_empty_nor_too_long(group_id: str) -> None:
    with pytest.raises(KafkaError) as caught:
        validation.check_group_id(group_id)
    assert caught.value.code is ErrorCode.INVALID_GROUP_ID


def test_groups_of_a_shard_are_limited() -> None:
    broker = BrokerConfig.parse(["group.share.max.groups=2"])
    validation.check_group_count("g", 1, broker)
    with pytest.raises(KafkaError, match="maximum of 2 classic groups") as caught:
        validation.check_group_count("g", 2, broker, "classic")
    assert caught.value.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert caught.value.metadata == {"group_id": "g"}


def test_unknown_group_and_member_are_named() -> None:
    group = ShareGroup("g")
    group.members["m"] = MEMBER
    assert validation.group_or_raise(group, "g") is group
    assert validation.member_or_raise(group, "m") is MEMBER
    with pytest.raises(KafkaError, match=r"Group h not found\.") as caught:
        validation.group_or_raise(None, "h")
    assert caught.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    with pytest.raises(KafkaError) as caught:
        validation.member_or_raise(group, "n")
    assert caught.value.code is ErrorCode.UNKNOWN_MEMBER_ID
    assert caught.value.metadata == {"group_id": "g", "member_id": "n"}


def test_group_with_members_is_not_empty() -> None:
    validation.check_empty("g", ())
    with pytest.raises(KafkaError, match=r"still has 2 member\(s\)") as caught:
        validation.check_empty("g", "ab")
    assert caught.value.code is ErrorCode.NON_EMPTY_GROUP


@pytest.mark.parametrize("requested", [None, 3])
def test_change_for_the_current_group_epoch_is_accepted(requested: int | None) -> None:
    validation.check_group_epoch(ShareGroup("g", 3), "g", requested)


@pytest.mark.parametrize(("group", "epoch"), [(ShareGroup("g", 3), "3"), (None, "0")])
def test_change_for_another_group_epoch_is_fenced(group: ShareGroup | None, epoch: str) -> None:
    with pytest.raises(KafkaError) as caught:
        validation.check_group_epoch(group, "g", 2)
    assert caught.value.code is ErrorCode.FENCED_STATE_EPOCH
    assert caught.value.metadata == {"group_id": "g", "group_epoch": epoch}


@pytest.mark.parametrize("received", [5, 3])
def test_last_and_previous_member_epoch_are_valid(received: int) -> None:
    validation.check_member_epoch(MEMBER, received)


@pytest.mark.parametrize(("received", "relation"), [(6, "greater"), (4, "smaller"), (0, "smaller")])
def test_other_member_epochs_are_fenced(received: int, relation: str) -> None:
    with pytest.raises(KafkaError, match=f"a {relation} member epoch") as caught:
        validation.check_member_epoch(MEMBER, received)
    assert caught.value.code is ErrorCode.FENCED_MEMBER_EPOCH
    assert caught.value.metadata == {"member_epoch": "5"}
