"""Moving offsets, forgetting topics and groups: decided, done at the share coordinator, reported back."""

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
from sharebroker_server.group_coordinator.service.share_states import Failures, ShareStates
from sharebroker_server.group_coordinator.service.shielded import to_the_end
from sharebroker_server.rpc.partition_errors import refusal

_events = structlog.get_logger()

Changed = Callable[[str, Collection[TopicIdPartition]], Awaitable[None]]
"""Gets a group id, and partitions."""

_AlteredTopic = pb.AlterShareGroupOffsetsResponse.Topic
_AlteredPartition = pb.AlterShareGroupOffsetsResponse.Partition
_DeletedTopic = pb.DeleteShareGroupOffsetsResponse.Topic
_DeletedGroup = pb.DeleteGroupsResponse.DeletableGroupResult


class Administration:
    """Changes of groups without members. Every method raises KafkaError for what is wrong with the group.

    `changed` tells leaders of a group of whose partitions the share state is another one now.
    """

    def __init__(self, shards: Shards, states: ShareStates, view: ClusterView, changed: Changed) -> None:
        self._shards = shards
        self._states = states
        self._view = view
        self._changed = changed

    async def alter_offsets(
        self, request: pb.AlterShareGroupOffsetsRequest
    ) -> pb.AlterShareGroupOffsetsResponse:
        """Kafka: AlterShareGroupOffsets (91)."""
        # A caller that goes away must not leave the change half done.
        return await to_the_end(self._alter_offsets(request))

    async def delete_offsets(
        self, request: pb.DeleteShareGroupOffsetsRequest
    ) -> pb.DeleteShareGroupOffsetsResponse:
        """Kafka: DeleteShareGroupOffsets (92)."""
        return await to_the_end(self._delete_offsets(request))

    async def delete_group(self, group_id: str, group_epoch: int | None) -> _DeletedGroup:
        """Kafka: DeleteGroups (42), one group; says in band what is wrong."""
        try:
            await to_the_end(self._delete_group(DeleteGroup(group_id, group_epoch)))
        except KafkaError as error:
            return _DeletedGroup(group_id=group_id, **refusal(error))
        _events.info("group deleted", group=group_id)
        return _DeletedGroup(group_id=group_id)

    async def _alter_offsets(
        self, request: pb.AlterShareGroupOffsetsRequest
    ) -> pb.AlterShareGroupOffsetsResponse:
        offsets = {
            (topic.topic_name, some.partition): some.start_offset
            for topic in request.topics
            for some in topic.partitions
        }
        command = AlterOffsets(request.group_id, offsets, _epoch(request))
        plan = await self._shards.ask(command, request.group_id, AlterPlan)
        failures = await self._states.initialize(plan.initialize)
        if plan.initialize.start_offsets:
            await self._changed(request.group_id, plan.initialize.start_offsets)
        if altered := plan.initialize.start_offsets.keys() - failures.keys():
            _events.info("offsets of a group altered", group=request.group_id, partitions=len(altered))
        return pb.AlterShareGroupOffsetsResponse(
            responses=[self._altered(topic, plan, failures) for topic in request.topics]
        )

    def _altered(
        self, asked: pb.AlterShareGroupOffsetsRequest.Topic, plan: AlterPlan, failures: Failures
    ) -> _AlteredTopic:
        topic = self._view.topic(asked.topic_name)
        altered = _AlteredTopic(topic_name=asked.topic_name, topic_id=topic.topic_id if topic else "")
        for some in asked.partitions:
            error = plan.refused.get((asked.topic_name, some.partition)) or failures.get(
                TopicIdPartition(altered.topic_id, some.partition)
            )
            altered.partitions.append(_AlteredPartition(partition=some.partition, **refusal(error)))
        return altered

    async def _delete_offsets(
        self, request: pb.DeleteShareGroupOffsetsRequest
    ) -> pb.DeleteShareGroupOffsetsResponse:
        command = DeleteOffsets(request.group_id, tuple(request.topic_names), _epoch(request))
        plan = await self._shards.ask(command, request.group_id, DeletePlan)
        failures: Failures = {}
        if plan.partitions:
            _, failures = await self._states.delete(request.group_id, plan)
            await self._changed(request.group_id, plan.partitions)
        by_topic = {topic_id: error for (topic_id, _), error in failures.items()}
        results = [self._deleted(name, plan, by_topic) for name in dict.fromkeys(request.topic_names)]
        if deleted := [result.topic_name for result in results if not result.error_code]:
            _events.info("offsets of a group deleted", group=request.group_id, topics=deleted)
        return pb.DeleteShareGroupOffsetsResponse(responses=results)

    def _deleted(self, name: str, plan: DeletePlan, failures: dict[str, KafkaError]) -> _DeletedTopic:
        topic = self._view.topic(name)
        topic_id = topic.topic_id if topic else ""
        error = plan.refused.get(name) or failures.get(topic_id)
        return _DeletedTopic(topic_name=name, topic_id=topic_id, **refusal(error))

    async def _delete_group(self, command: DeleteGroup) -> None:
        group_id = command.group_id
        plan = await self._shards.ask(command, group_id, DeletePlan)
        if not plan.partitions:
            return
        gone, failures = await self._states.delete(group_id, plan, with_group=True)
        await self._changed(group_id, plan.partitions)
        for error in failures.values():
            raise error
        if not gone:
            raise KafkaError(
                ErrorCode.NON_EMPTY_GROUP, f"A member joined group {group_id} while it was being deleted."
            )


def _epoch(request: pb.AlterShareGroupOffsetsRequest | pb.DeleteShareGroupOffsetsRequest) -> int | None:
    return request.group_epoch if request.HasField("group_epoch") else None
