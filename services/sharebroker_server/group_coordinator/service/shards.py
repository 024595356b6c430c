"""The group coordinator's shards in this process, and the routing of commands to the shard of a group."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.coordinator_runtime.host import ShardHost, shard_of
from sharebroker_server.group_coordinator.config import GroupCoordinatorConfig
from sharebroker_server.group_coordinator.core.consumer_groups.commands import ListConsumers
from sharebroker_server.group_coordinator.core.machine import Command, GroupMachine, Record, Reply
from sharebroker_server.group_coordinator.core.share_groups.commands import ListGroups
from sharebroker_server.group_coordinator.core.view import ClusterView
from sharebroker_server.group_coordinator.store.codec import GroupCodec
from sharebroker_server.stream_log.port import StreamLog

Host = ShardHost[Command, Record, Reply]
R = TypeVar("R", bound=Reply)


def make_host(log: StreamLog, config: GroupCoordinatorConfig, view: ClusterView) -> Host:
    """Returns the group coordinator's shards; start them with the lease holder and
    `GroupCoordinator.perform`.
    """
    return ShardHost(
        "group-coordinator", config.shards, log, lambda _: GroupMachine(view), GroupCodec(), config.runtime
    )


class Shards:
    """Sends commands to the shards of this process. Every method raises KafkaError as the runtime does."""

    def __init__(self, host: Host, config: GroupCoordinatorConfig) -> None:
        self._host = host
        self._shards = config.shards
        self._timeout = config.write_timeout

    async def request(self, command: Command, group_id: str, kind: type[R]) -> R:
        """Returns the reply to a command about one group once the records it rests on are durable."""
        reply = await self.submit(command, group_id)
        if not isinstance(reply, kind):
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"The reply to {command} is {reply!r}.")
        return reply

    async def send(self, command: Command, group_id: str) -> None:
        """Sends a command about one group and ignores the reply."""
        await self.submit(command, group_id)

    def submit(self, command: Command, group_id: str) -> asyncio.Future[Reply]:
        """Decides a command about one group before it returns; the future completes when it is durable."""
        return self._host.shard(shard_of(group_id, self._shards)).submit(command, timeout=self._timeout)

    async def send_to(self, command: Command, shard: int) -> None:
        """Sends a command about all groups of a shard and ignores the reply."""
        await self._host.shard(shard).write(command, timeout=self._timeout)

    def shard_of(self, group_id: str) -> int:
        """Returns the shard of a group, owned by this process or not."""
        return shard_of(group_id, self._shards)

    def try_read(self, command: Command, group_id: str) -> Reply | None:
        """Returns the reply to a command without records; None if any record of the shard is pending."""
        return self._host.shard(shard_of(group_id, self._shards)).try_read(command)

    def load_generation(self, group_id: str) -> tuple[int, int]:
        """Returns the load generation of the group's shard: a change means that its soft state was lost."""
        return self._host.shard(shard_of(group_id, self._shards)).load_generation

    async def list(self, command: ListGroups | ListConsumers) -> tuple[dict[str, Any], list[int]]:
        """Returns the listed groups of all shards in this process by group id, and these shards."""
        return await self._host.list_all(command, self._timeout)
