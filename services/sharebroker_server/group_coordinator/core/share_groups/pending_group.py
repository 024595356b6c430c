"""A share group as a decision is changing it: each step of the decision sees the changes before it."""

from __future__ import annotations

from sharebroker_server.group_coordinator.core.records import GroupRecord, ShareGroupRecord
from sharebroker_server.group_coordinator.core.share_groups.model import ShareGroup
from sharebroker_server.group_coordinator.core.share_groups.replay import apply_to


class PendingGroup:
    """Collects the records of a decision. `group` is a copy with them applied; the original never changes.

    `raised` counts the epochs that the decision adds.
    """

    __slots__ = ("group", "raised", "records")

    def __init__(self, group: ShareGroup) -> None:
        self.group = group
        self.records: list[ShareGroupRecord] = []
        self.raised = 0

    def add(self, record: ShareGroupRecord) -> None:
        """Adds a record to the decision and applies it to the copy."""
        if not self.records:
            self.group = self.group.copy()
        self.records.append(record)
        apply_to(self.group, record)

    def raise_epoch(self, metadata_hash: int | None = None) -> None:
        """Raises the group epoch by one; `metadata_hash` replaces the hash of the subscribed topics
        if given.
        """
        group = self.group
        seen = group.metadata_hash if metadata_hash is None else metadata_hash
        self.raised += 1
        self.add(GroupRecord(group.group_id, group.epoch + 1, seen, group.since_epoch))
