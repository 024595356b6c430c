"""The cluster as the rules see it; it does not change during a decision."""

from __future__ import annotations

from typing import Protocol

from sharebroker_server.catalog.topics import Topic
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.config.group import GroupConfig


class MetadataImage(Protocol):
    """The catalog and the effective configs (`sharebroker_server.catalog.metadata_cache`)."""

    @property
    def broker(self) -> BrokerConfig:
        """The broker properties."""

    @property
    def revision(self) -> int:
        """A number that rises with every change of the image."""

    def topic(self, name: str) -> Topic | None:
        """Returns the topic with this name."""

    def topic_by_id(self, topic_id: str) -> Topic | None:
        """Returns the topic with this id."""

    def is_deleted(self, topic_id: str) -> bool:
        """Returns whether the topic was deleted; False for a topic that is not in the cache yet."""

    def group_config(self, group_id: str) -> GroupConfig:
        """Returns the effective properties of a group."""
