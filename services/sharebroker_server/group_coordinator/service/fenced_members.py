"""Releases the records of members whose session timed out."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.aio import Tasks
from sharebroker_server.group_coordinator.core.share_groups.commands import DescribeGroup
from sharebroker_server.group_coordinator.core.share_groups.group import ShareGroup
from sharebroker_server.group_coordinator.service.shards import Host

_log = structlog.get_logger()


class FencedMembers:
    """Releases records in the background; `member_left` informs the leaders about a member of a group."""

    def __init__(self, host: Host, member_left: Callable[[str, str], None]) -> None:
        self._host = host
        self._member_left = member_left
        self._tasks = Tasks(_log_failure)

    def release(self, group_id: str, member_id: str) -> None:
        """Starts the release of the records of a member that was fenced."""
        _log.info("member session timed out", group=group_id, member=member_id)
        self._tasks.spawn(self._release(group_id, member_id))

    async def close(self) -> None:
        """Cancels what runs in the background."""
        await self._tasks.stop()

    async def _release(self, group_id: str, member_id: str) -> None:
        """Releases the records of a fenced member, unless it has joined again."""
        try:
            group = await self._host.request(group_id, DescribeGroup(group_id), ShareGroup)
        except KafkaError as error:
            _log.info("fenced member not released", group=group_id, member=member_id, error=str(error))
            return
        if member_id not in group.members:
            self._member_left(group_id, member_id)


def _log_failure(error: BaseException) -> None:
    _log.error("release of a fenced member failed", exc_info=error)
