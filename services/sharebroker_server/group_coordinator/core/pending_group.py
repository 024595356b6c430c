"""A group as it will be: a decision is made step by step, each step sees what the ones before it changed."""

from __future__ import annotations

from sharebroker_server.group_coordinator.core.model import ShareGroup
from sharebroker_server.group_coordinator.core.records import GroupRecord, OfGroup
from sharebroker_server.group_coordinator.core.replay import apply_to


class Draft:
    """Collects records and shows `group` with them; the group it began with stays as it is.

    `raised` is by how many epochs.
    """

    __slots__ = ("group", "raised", "records")

    def __init__(self, group: ShareGroup) -> None:
        self.group = group
        self.records: list[OfGroup] = []
        self.raised = 0

    def put(self, record: OfGroup) -> None:
        """Adds a record to the decision."""
        if not self.records:
            self.group = self.group.copy()
        self.records.append(record)
        apply_to(self.group, record)

    def raise_epoch(self, metadata_hash: int | None = None) -> None:
        """The group's next epoch; with the hash of its topics as they are now, if that is known."""
        group = self.group
        seen = group.metadata_hash if metadata_hash is None else metadata_hash
        self.raised += 1
        self.put(GroupRecord(group.group_id, group.epoch + 1, seen, group.since_epoch))
