"""What the rules may ask about the cluster; it does not change while a decision is made."""

from __future__ import annotations

from typing import Protocol

from sharebroker_server.catalog.records import Topic
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.config.group import GroupConfig


class ClusterView(Protocol):
    """The catalog and the settings in force (`sharebroker_server.catalog.metadata_cache`)."""

    @property
    def broker(self) -> BrokerConfig:
        """Broker properties."""

    @property
    def revision(self) -> int:
        """Rises with every change of what this view shows."""

    def topic(self, name: str) -> Topic | None:
        """The topic of this name."""

    def topic_by_id(self, topic_id: str) -> Topic | None:
        """The topic of this id."""

    def is_deleted(self, topic_id: str) -> bool:
        """Whether the topic existed and is gone; False for one not heard of yet."""

    def group_config(self, group_id: str) -> GroupConfig:
        """Group properties in force."""
