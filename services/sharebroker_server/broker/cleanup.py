"""What follows when a member leaves its group or a topic is deleted: others are told."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine
from contextlib import suppress
from typing import Any, Final

import structlog

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as share
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_server.aio.tasks import Tasks
from sharebroker_server.catalog.records import CatalogRecord, TopicDeletedRecord
from sharebroker_server.cluster.router import SHARE_COORDINATOR, Peer, Router
from sharebroker_server.leases import names

_log = structlog.get_logger()

CALL_TIMEOUT: Final = 5.0
SOON: Final = 1.0
"""Seconds for which a change of share state waits for leaders to hear of it."""

TRIES: Final = 10
PAUSE: Final = 1.0


class Departures:
    """Runs in the processes of the group coordinator; every step may be repeated."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._tasks = Tasks(_failed)

    def member_left(self, group_id: str, member_id: str) -> None:
        """Frees the records a member holds: it left, or its session ran out (Kafka leaves them locked)."""
        request = leader.ReleaseMemberRequest(group_id=group_id, member_id=member_id)
        # At once: behind one that is silent it would come late, when the member is back with other records.
        for peer in self._router.leaders():
            self.start(self._release(peer, request))

    async def state_changed(self, group_id: str, partitions: Collection[tuple[str, int]]) -> None:
        """Has leaders load a group's state anew (Kafka lets them go on with the old one).

        Waits for those that hear it soon: whoever changed the state is to get no records by the old one.
        """
        await asyncio.wait([self._tasks.spawn(self._reload(group_id, partitions))], timeout=SOON)

    def metadata_changed(self, record: CatalogRecord) -> None:
        """Removes the share state of a deleted topic, in the process that owns the catalog."""
        if isinstance(record, TopicDeletedRecord):
            self.start(self._forget(share.DeleteTopicStateRequest(topic_id=record.topic_id)))

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs work that nobody waits for."""
        self._tasks.spawn(work)

    async def stop(self) -> None:
        """Gives up what is under way."""
        await self._tasks.stop()

    async def _reload(self, group_id: str, partitions: Collection[tuple[str, int]]) -> None:
        peers = {peer.member.owner: peer for peer in self._router.leaders()}
        for topic_id, partition in partitions:
            with suppress(KafkaError):  # one that began to lead just now need not be listed yet
                peer = await self._router.leader(topic_id, partition)
                peers[peer.member.owner] = peer
        request = leader.ReleaseMemberRequest(group_id=group_id)
        await asyncio.gather(*(self._release(peer, request) for peer in peers.values()))

    async def _release(self, peer: Peer[Any], request: leader.ReleaseMemberRequest) -> None:
        try:
            await peer.stub.ReleaseMember(request, timeout=CALL_TIMEOUT)
        except KafkaError as error:
            # Its locks run out by themselves.
            _log.info("a leader does not know of a departure", member=request.member_id, error=str(error))

    async def _forget(self, request: share.DeleteTopicStateRequest) -> None:
        for attempt in range(TRIES):
            await asyncio.sleep(PAUSE * attempt)
            try:
                owner = await self._router.owner_of(names.CATALOG)
                if owner is None:  # it died: whoever follows does this
                    raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
                if self._router.is_self(owner):
                    await self._forget_everywhere(request)
            except KafkaError as error:
                _log.info(
                    "state of a deleted topic stays for now", topic_id=request.topic_id, error=str(error)
                )
            else:
                return

    async def _forget_everywhere(self, request: share.DeleteTopicStateRequest) -> None:
        """Raises KafkaError unless every shard has done it."""
        shards: list[int] = []
        for peer in self._router.share_coordinators():
            shards += (await peer.stub.DeleteTopicState(request, timeout=CALL_TIMEOUT)).shards
        self._router.check_all_answered(SHARE_COORDINATOR, shards)


def _failed(error: BaseException) -> None:
    _log.error("telling others failed", exc_info=error)
