"""The groups whose limits the pipeline requests, and the settings of a run."""

from __future__ import annotations

import re
from types import SimpleNamespace, TracebackType
from typing import Any, cast

import pytest

from sharebroker.admin_model import GroupListing
from sharebroker.blocking.admin import Admin
from sharebroker_protocol.model import TopicPartition
from sharebroker_server.pipeline import server_settings
from sharebroker_server.pipeline.server_settings import groups_of, settings_of


class Server:
    """A server's groups and their topics."""

    def __init__(self, address: str = "h:1") -> None:
        self.described: list[str] = [address]

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leaves nothing open."""

    def list_groups(self) -> list[GroupListing]:
        return [GroupListing(name, "Empty") for name in ("billing", "idle", "others")]

    def group_offsets(self, group_id: str) -> dict[TopicPartition, Any]:
        topics = {"billing": ["flights", "invoices"], "others": ["invoices"]}.get(group_id, [])
        return {TopicPartition(topic, 0): None for topic in topics}

    def describe_topic(self, topic: str) -> None:
        self.described.append(topic)

    def describe_group(self, group: str) -> None:
        self.described.append(group)

    def group_configs(self, group: str) -> list[SimpleNamespace]:
        config = {"billing": "7", "idle": "3"}[group]
        return [SimpleNamespace(name="share.delivery.count.limit", value=config)]


def test_groups_of_other_topics_are_ignored() -> None:
    assert groups_of(cast("Admin", Server()), "flights") == ["billing"]


@pytest.mark.parametrize(("watch", "limits"), [((), {"billing": 7}), (("idle",), {"idle": 3})])
def test_only_watched_groups_have_limits(
    monkeypatch: pytest.MonkeyPatch, watch: tuple[str, ...], limits: dict[str, int]
) -> None:
    monkeypatch.setattr(server_settings, "Admin", Server)
    settings = settings_of("h:1", {"topic": "flights"}, watch, 9)
    assert (settings.limits, settings.watch, settings.server) == (limits, ",".join(watch), "h:1")
    assert settings.records_per_trigger == 9
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", settings.started)
