"""Soft changes and effects of decisions about consumer groups."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from sharebroker_server.coordinator_runtime.machine import Effect, SoftChange
from sharebroker_server.group_coordinator.core.consumer_groups.commands import DeferredResult
from sharebroker_server.group_coordinator.core.consumer_groups.group import ConsumerGroup
from sharebroker_server.group_coordinator.core.session_clocks import DeadlineSet, Session


@dataclass(frozen=True, slots=True)
class GroupReplaced(SoftChange):
    """The group has another state from now on; None: it has no members any more."""

    group_id: str
    group: ConsumerGroup | None


@dataclass(frozen=True, slots=True)
class DeferredReply(Effect):
    """The reply to an earlier command whose reply was `Deferred`, by the id that the command carried."""

    reply_id: int
    result: DeferredResult


@dataclass(slots=True)
class Edit:
    """Copies of groups that a decision changes; `soft` and `effects` are the outcome."""

    groups: dict[str, ConsumerGroup] = field(default_factory=dict)
    deadlines: dict[Session, float | None] = field(default_factory=dict)
    replies: list[tuple[int, DeferredResult]] = field(default_factory=list)

    def of(self, group: ConsumerGroup) -> ConsumerGroup:
        """Returns the copy of a group; what it changes is collected here."""
        copied = self.groups.get(group.group_id)
        if copied is None:
            copied = self.groups[group.group_id] = group.copy(self.deadlines, self.replies)
        return copied

    @property
    def soft(self) -> tuple[SoftChange, ...]:
        """The soft changes of the decision."""
        return (*self._replaced(), *(DeadlineSet(session, when) for session, when in self.deadlines.items()))

    @property
    def effects(self) -> tuple[Effect, ...]:
        """The effects of the decision, in the order in which they arose."""
        return tuple(DeferredReply(*reply) for reply in self.replies)

    def _replaced(self) -> Iterable[SoftChange]:
        return (
            GroupReplaced(group_id, group if group.size else None) for group_id, group in self.groups.items()
        )
