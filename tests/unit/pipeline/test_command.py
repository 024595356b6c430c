"""The groups whose limits the pipeline requests."""

from __future__ import annotations

from typing import Any, cast

from sharebroker.admin_model import GroupListing
from sharebroker.blocking.admin import Admin
from sharebroker_protocol.model import TopicPartition
from sharebroker_server.pipeline.command import _groups_of


class Groups:
    """A server's groups and their topics."""

    def list_groups(self) -> list[GroupListing]:
        return [GroupListing(name, "Empty") for name in ("billing", "idle", "others")]

    def group_offsets(self, group_id: str) -> dict[TopicPartition, Any]:
        topics = {"billing": ["flights", "invoices"], "others": ["invoices"]}.get(group_id, [])
        return {TopicPartition(topic, 0): None for topic in topics}


def test_groups_of_other_topics_are_ignored() -> None:
    assert _groups_of(cast("Admin", Groups()), "flights") == ["billing"]
