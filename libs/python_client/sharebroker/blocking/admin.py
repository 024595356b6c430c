"""The blocking administration client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Self

from sharebroker.admin_model import ConfigValue, GroupDescription, GroupListing, GroupOffset, TopicDescription
from sharebroker.aio.admin import LATEST
from sharebroker.aio.admin import Admin as AsyncAdmin
from sharebroker.blocking.loop_thread import LoopThread
from sharebroker_protocol.model import TopicPartition
from sharebroker_protocol.share_coordinator.v1.share_coordinator_pb2 import InspectShareGroupStateResponse
from sharebroker_protocol.share_partition_leader.v1.share_partition_leader_pb2 import InspectRecordsResponse


class Admin:
    """Topics, groups and settings. Every method raises KafkaError; nothing is then done, not even in part."""

    def __init__(self, address: str, request_timeout: float = 30.0) -> None:
        """`address` is the gateway's host:port; `request_timeout` in seconds bounds each call."""
        self._thread, self._admin = LoopThread.hosting(lambda: AsyncAdmin(address, request_timeout))
        self._closed = False

    def __del__(self) -> None:
        if hasattr(self, "_admin") and not self._closed:
            self._thread.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. Closing again does nothing."""
        if not self._closed:
            self._closed = True
            self._thread.call(self._admin.close())
            self._thread.close()

    def create_topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> TopicDescription:
        """Raises TOPIC_ALREADY_EXISTS, INVALID_TOPIC_EXCEPTION, INVALID_PARTITIONS, INVALID_CONFIG."""
        return self._thread.call(self._admin.create_topic(name, partitions, configs))

    def delete_topic(self, name: str) -> None:
        """Raises UNKNOWN_TOPIC_OR_PARTITION."""
        self._thread.call(self._admin.delete_topic(name))

    def list_topics(self) -> list[TopicDescription]:
        """All topics by name."""
        return self._thread.call(self._admin.list_topics())

    def describe_topic(self, name: str) -> TopicDescription:
        """Raises UNKNOWN_TOPIC_OR_PARTITION."""
        return self._thread.call(self._admin.describe_topic(name))

    def create_partitions(self, name: str, count: int) -> None:
        """Let a topic have `count` partitions, more than it has. Raises INVALID_PARTITIONS."""
        self._thread.call(self._admin.create_partitions(name, count))

    def list_offsets(
        self, partitions: Iterable[TopicPartition], timestamp: int = LATEST
    ) -> dict[TopicPartition, int | None]:
        """The first offset at or after `timestamp` (ms since the Unix epoch, EARLIEST, LATEST), or None."""
        return self._thread.call(self._admin.list_offsets(partitions, timestamp))

    def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete records below the given offsets (-1: all); the log start offsets after it."""
        return self._thread.call(self._admin.delete_records(before))

    def topic_configs(self, name: str) -> list[ConfigValue]:
        """The settings of a topic."""
        return self._thread.call(self._admin.topic_configs(name))

    def group_configs(self, group_id: str) -> list[ConfigValue]:
        """The settings of a group, which need not exist."""
        return self._thread.call(self._admin.group_configs(group_id))

    def alter_topic_configs(self, name: str, configs: Mapping[str, str | None]) -> None:
        """Set values; None puts one back to its default. Raises INVALID_CONFIG."""
        self._thread.call(self._admin.alter_topic_configs(name, configs))

    def alter_group_configs(self, group_id: str, configs: Mapping[str, str | None]) -> None:
        """Set values; None puts one back to its default. Raises INVALID_CONFIG."""
        self._thread.call(self._admin.alter_group_configs(group_id, configs))

    def list_groups(self) -> list[GroupListing]:
        """All share groups by name."""
        return self._thread.call(self._admin.list_groups())

    def describe_group(self, group_id: str) -> GroupDescription:
        """Raises GROUP_ID_NOT_FOUND."""
        return self._thread.call(self._admin.describe_group(group_id))

    def delete_group(self, group_id: str) -> None:
        """Forget an empty group and its state. Raises NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND."""
        self._thread.call(self._admin.delete_group(group_id))

    def group_offsets(self, group_id: str) -> dict[TopicPartition, GroupOffset]:
        """Where the group stands in each partition it knows. Raises GROUP_ID_NOT_FOUND."""
        return self._thread.call(self._admin.group_offsets(group_id))

    def alter_group_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Move start offsets of an empty group. Raises NON_EMPTY_GROUP."""
        self._thread.call(self._admin.alter_group_offsets(group_id, offsets))

    def delete_group_offsets(self, group_id: str, topics: Iterable[str]) -> None:
        """Let an empty group forget topics. Raises NON_EMPTY_GROUP."""
        self._thread.call(self._admin.delete_group_offsets(group_id, topics))

    def inspect_state(self, group_id: str, partition: TopicPartition) -> InspectShareGroupStateResponse:
        """The share-partition's checkpoint and deltas as they are stored, and what they fold to."""
        return self._thread.call(self._admin.inspect_state(group_id, partition))

    def inspect_records(
        self, group_id: str, partitions: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, InspectRecordsResponse.Partition]:
        """What the group's members hold, and where the log has no records, from the given offsets on.

        -1 reads nothing of the log. An answer ends at its `next_offset`: there may be more to ask for.
        """
        return self._thread.call(self._admin.inspect_records(group_id, partitions))
