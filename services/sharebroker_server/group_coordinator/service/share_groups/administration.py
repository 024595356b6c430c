"""Administration of share groups: each change is decided, carried out at the share coordinator, and
reported.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection

import structlog

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.group_coordinator.core.commands import (
    AlterOffsets,
    AlterPlan,
    DeleteGroup,
    DeleteOffsets,
    DeletePlan,
)
from sharebroker_server.group_coordinator.core.view import ClusterView
from sharebroker_server.group_coordinator.service.shards import Shards
from sharebroker_server.group_coordinator.service.share_groups.share_states import Failures, ShareStates
from sharebroker_server.group_coordinator.service.shielded import shielded
from sharebroker_server.rpc.errors import refusal

_log = structlog.get_logger()

StateChanged = Callable[[str, Collection[TopicIdPartition]], Awaitable[None]]
"""Receives a group id and the partitions whose share state was replaced."""

_AlteredTopic = pb.AlterShareGroupOffsetsResponse.Topic
_AlteredPartition = pb.AlterShareGroupOffsetsResponse.Partition
_DeletedTopic = pb.DeleteShareGroupOffsetsResponse.Topic
_DeletedGroup = pb.DeleteGroupsResponse.DeletableGroupResult


class Administration:
    """Changes groups without members. Every method raises KafkaError for errors about the whole group.

    `state_changed` makes leaders load replaced share state again.
    """

    def __init__(
        self, shards: Shards, states: ShareStates, view: ClusterView, state_changed: StateChanged
    ) -> None:
        self._shards = shards
        self._states = states
        self._view = view
        self._state_changed = state_changed

    async def alter_offsets(
        self, request: pb.AlterShareGroupOffsetsRequest
    ) -> pb.AlterShareGroupOffsetsResponse:
        """Kafka: AlterShareGroupOffsets (91)."""
        # A cancelled caller must not leave the change half done.
        return await shielded(self._alter_offsets(request))

    async def delete_offsets(
        self, request: pb.DeleteShareGroupOffsetsRequest
    ) -> pb.DeleteShareGroupOffsetsResponse:
        """Kafka: DeleteShareGroupOffsets (92)."""
        return await shielded(self._delete_offsets(request))

    async def delete_group(self, group_id: str, group_epoch: int | None) -> _DeletedGroup:
        """Kafka: DeleteGroups (42), one group; returns errors in the result."""
        try:
            await shielded(self._delete_group(DeleteGroup(group_id, group_epoch)))
        except KafkaError as error:
            return _DeletedGroup(group_id=group_id, **refusal(error))
        _log.info("share group deleted", group=group_id)
        return _DeletedGroup(group_id=group_id)

    async def _alter_offsets(
        self, request: pb.AlterShareGroupOffsetsRequest
    ) -> pb.AlterShareGroupOffsetsResponse:
        offsets = {
            (topic.topic_name, partition.partition): partition.start_offset
            for topic in request.topics
            for partition in topic.partitions
        }
        command = AlterOffsets(request.group_id, offsets, _epoch(request))
        plan = await self._shards.request(command, request.group_id, AlterPlan)
        failures = await self._states.initialize(plan.initialize)
        if plan.initialize.start_offsets:
            await self._state_changed(request.group_id, plan.initialize.start_offsets)
        if altered := plan.initialize.start_offsets.keys() - failures.keys():
            _log.info("share group offsets altered", group=request.group_id, partitions=len(altered))
        return pb.AlterShareGroupOffsetsResponse(
            responses=[self._altered(topic, plan, failures) for topic in request.topics]
        )

    def _altered(
        self, requested: pb.AlterShareGroupOffsetsRequest.Topic, plan: AlterPlan, failures: Failures
    ) -> _AlteredTopic:
        topic = self._view.topic(requested.topic_name)
        altered = _AlteredTopic(topic_name=requested.topic_name, topic_id=topic.topic_id if topic else "")
        for partition in requested.partitions:
            error = plan.rejected.get((requested.topic_name, partition.partition)) or failures.get(
                TopicIdPartition(altered.topic_id, partition.partition)
            )
            altered.partitions.append(_AlteredPartition(partition=partition.partition, **refusal(error)))
        return altered

    async def _delete_offsets(
        self, request: pb.DeleteShareGroupOffsetsRequest
    ) -> pb.DeleteShareGroupOffsetsResponse:
        command = DeleteOffsets(request.group_id, tuple(request.topic_names), _epoch(request))
        plan = await self._shards.request(command, request.group_id, DeletePlan)
        failures: Failures = {}
        if plan.partitions:
            _, failures = await self._states.delete(request.group_id, plan)
            await self._state_changed(request.group_id, plan.partitions)
        by_topic = {topic_id: error for (topic_id, _), error in failures.items()}
        results = [self._deleted(name, plan, by_topic) for name in dict.fromkeys(request.topic_names)]
        if deleted := [result.topic_name for result in results if not result.error_code]:
            _log.info("share group offsets deleted", group=request.group_id, topics=deleted)
        return pb.DeleteShareGroupOffsetsResponse(responses=results)

    def _deleted(self, name: str, plan: DeletePlan, failures: dict[str, KafkaError]) -> _DeletedTopic:
        topic = self._view.topic(name)
        topic_id = topic.topic_id if topic else ""
        error = plan.rejected.get(name) or failures.get(topic_id)
        return _DeletedTopic(topic_name=name, topic_id=topic_id, **refusal(error))

    async def _delete_group(self, command: DeleteGroup) -> None:
        group_id = command.group_id
        plan = await self._shards.request(command, group_id, DeletePlan)
        if not plan.partitions:
            return
        deleted, failures = await self._states.delete(group_id, plan, with_group=True)
        await self._state_changed(group_id, plan.partitions)
        for error in failures.values():
            raise error
        if not deleted:
            raise KafkaError(
                ErrorCode.NON_EMPTY_GROUP, f"A member joined group {group_id} while it was being deleted."
            )


def _epoch(request: pb.AlterShareGroupOffsetsRequest | pb.DeleteShareGroupOffsetsRequest) -> int | None:
    return request.group_epoch if request.HasField("group_epoch") else None
