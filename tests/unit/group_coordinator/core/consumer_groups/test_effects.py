"""A decision collects changes of consumer groups on copies."""

from __future__ import annotations

from sharebroker_server.group_coordinator.core.consumer_groups.commands import Synced
from sharebroker_server.group_coordinator.core.consumer_groups.effects import (
    DeferredReply,
    Edit,
    GroupReplaced,
)
from sharebroker_server.group_coordinator.core.consumer_groups.group import ConsumerGroup
from sharebroker_server.group_coordinator.core.session_clocks import DeadlineSet, Session

SESSION = Session("g", "a")


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


def test_deadlines_follow_the_replaced_groups() -> None:
    edit = Edit()
    copied = edit.of(ConsumerGroup("g", 0.0))
    copied.promise("a", 5.0)
    replaced, deadline = edit.soft
    assert replaced == GroupReplaced("g", copied)
    assert deadline == DeadlineSet(SESSION, 5.0)


def test_replies_keep_their_order() -> None:
    edit = Edit()
    replies = [Synced("consumer", "range", part) for part in (b"1", b"2")]
    edit.replies += [(7, replies[0]), (3, replies[1])]
    assert edit.effects == (DeferredReply(7, replies[0]), DeferredReply(3, replies[1]))
