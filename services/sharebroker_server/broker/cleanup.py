"""Cleanup after members that leave a group and after deleted topics, by requests to other services."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine
from contextlib import suppress
from typing import Any, Final

import structlog

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as share
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_server.aio import Tasks
from sharebroker_server.catalog.records import CatalogRecord, TopicDeletedRecord
from sharebroker_server.leases import names
from sharebroker_server.routing.router import SHARE_COORDINATOR, Peer, Router

_log = structlog.get_logger()

CALL_TIMEOUT: Final = 5.0
RELOAD_TIMEOUT: Final = 1.0
"""Seconds for which a change of share state waits until leaders have dropped the old state."""

ATTEMPTS: Final = 10
PAUSE: Final = 1.0


class Cleanup:
    """Runs beside the group coordinator; every request is idempotent."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._tasks = Tasks(_failed)

    def member_left(self, group_id: str, member_id: str) -> None:
        """Releases the records of a member that left or was fenced.

        Kafka leaves them locked until the timeout.
        """
        request = leader.ReleaseMemberRequest(group_id=group_id, member_id=member_id)
        # Concurrently: a delayed release could reach a member that rejoined and holds other records.
        for peer in self._router.leaders():
            self.start(self._release(peer, request))

    async def state_changed(self, group_id: str, partitions: Collection[tuple[str, int]]) -> None:
        """Makes leaders reload a group's state. Kafka's leaders keep the old state.

        Waits `RELOAD_TIMEOUT` seconds, so that the caller gets no records by the old state.
        """
        await asyncio.wait([self._tasks.spawn(self._reload(group_id, partitions))], timeout=RELOAD_TIMEOUT)

    def metadata_changed(self, record: CatalogRecord) -> None:
        """Deletes the share state of a deleted topic; the owner of the catalog does this."""
        if isinstance(record, TopicDeletedRecord):
            self.start(self._delete_state(share.DeleteTopicStateRequest(topic_id=record.topic_id)))

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs work in the background."""
        self._tasks.spawn(work)

    async def stop(self) -> None:
        """Cancels all work."""
        await self._tasks.stop()

    async def _reload(self, group_id: str, partitions: Collection[tuple[str, int]]) -> None:
        peers = {peer.member.owner: peer for peer in self._router.leaders()}
        for topic_id, partition in partitions:
            with suppress(KafkaError):  # a new leader may not be listed yet
                peer = await self._router.leader(topic_id, partition)
                peers[peer.member.owner] = peer
        request = leader.ReleaseMemberRequest(group_id=group_id)
        await asyncio.gather(*(self._release(peer, request) for peer in peers.values()))

    async def _release(self, peer: Peer[Any], request: leader.ReleaseMemberRequest) -> None:
        try:
            await peer.stub.ReleaseMember(request, timeout=CALL_TIMEOUT)
        except KafkaError as error:
            # Its locks end by timeout.
            _log.info(
                "release of a departed member failed; its locks will time out",
                member=request.member_id,
                error=str(error),
            )

    async def _delete_state(self, request: share.DeleteTopicStateRequest) -> None:
        for attempt in range(ATTEMPTS):
            await asyncio.sleep(PAUSE * attempt)
            try:
                owner = await self._router.owner_of(names.CATALOG)
                if owner is None:  # the owner died: its successor does this
                    raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
                if self._router.is_self(owner):
                    await self._delete_state_everywhere(request)
            except KafkaError as error:
                _log.info(
                    "deletion of share state failed; retrying", topic_id=request.topic_id, error=str(error)
                )
            else:
                return

    async def _delete_state_everywhere(self, request: share.DeleteTopicStateRequest) -> None:
        """Deletes the state in every shard. Raises KafkaError unless all shards respond."""
        shards: list[int] = []
        for peer in self._router.share_coordinators():
            shards += (await peer.stub.DeleteTopicState(request, timeout=CALL_TIMEOUT)).shards
        self._router.check_all_answered(SHARE_COORDINATOR, shards)


def _failed(error: BaseException) -> None:
    _log.error("cleanup failed", exc_info=error)
