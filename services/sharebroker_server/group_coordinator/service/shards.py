"""The shards of this process and how a command reaches the one of its group."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.coordinator_runtime.hashing import shard_of
from sharebroker_server.coordinator_runtime.host import ShardHost
from sharebroker_server.group_coordinator.config import GroupCoordinatorConfig
from sharebroker_server.group_coordinator.core.commands import Command, ListGroups, Reply
from sharebroker_server.group_coordinator.core.consumers.commands import ListConsumers
from sharebroker_server.group_coordinator.core.machine import Fenced, GroupCounts, GroupMachine
from sharebroker_server.group_coordinator.core.records import Record
from sharebroker_server.group_coordinator.core.view import ClusterView
from sharebroker_server.group_coordinator.service.deferred_replies import Answers
from sharebroker_server.group_coordinator.store.codec import GroupCodec
from sharebroker_server.stream_log.port import StreamLog

Host = ShardHost[Command, Record, Reply]
R = TypeVar("R", bound=Reply)


def make_host(
    log: StreamLog,
    config: GroupCoordinatorConfig,
    view: ClusterView,
    fenced: Fenced,
    answers: Answers,
    counts: GroupCounts | None = None,
) -> Host:
    """The group coordinator's shards; start it with the process's lease holder.

    `fenced` is called with group id and member id when a session ran out, before that is durable; `answers`
    gets what members of consumer groups wait for. `counts` outlives shards that are loaded anew.
    """
    return ShardHost(
        "group-coordinator",
        config.shards,
        log,
        lambda _: GroupMachine(view, fenced, answers.give, counts),
        GroupCodec(),
        config.runtime,
    )


class Shards:
    """Sends commands to the shards held here. Every method raises KafkaError as the runtime does."""

    def __init__(self, host: Host, config: GroupCoordinatorConfig) -> None:
        self._host = host
        self._shards = config.shards
        self._timeout = config.write_timeout

    async def ask(self, command: Command, group_id: str, kind: type[R]) -> R:
        """The reply to a command about one group, once what it rests on is durable."""
        reply = await self.submit(command, group_id)
        if not isinstance(reply, kind):
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{command} was answered with {reply!r}.")
        return reply

    async def tell(self, command: Command, group_id: str) -> None:
        """A command whose reply says nothing."""
        await self.submit(command, group_id)

    def submit(self, command: Command, group_id: str) -> asyncio.Future[Reply]:
        """`ask` without waiting: decided when this returns."""
        return self._host.shard(shard_of(group_id, self._shards)).submit(command, timeout=self._timeout)

    async def submit_to(self, command: Command, shard: int) -> None:
        """A command about all groups of a shard, whose reply says nothing."""
        await self._host.shard(shard).write(command, timeout=self._timeout)

    def shard_of(self, group_id: str) -> int:
        """The shard of a group, held here or not."""
        return shard_of(group_id, self._shards)

    def at_once(self, command: Command, group_id: str) -> Reply | None:
        """See ShardRuntime."""
        return self._host.shard(shard_of(group_id, self._shards)).at_once(command)

    def memory(self, group_id: str) -> tuple[int, int]:
        """See ShardRuntime: whoever waits there for something waits in vain when it is another one."""
        return self._host.shard(shard_of(group_id, self._shards)).memory

    async def list(self, command: ListGroups | ListConsumers) -> tuple[dict[str, Any], list[int]]:
        """What is told of the groups of all shards held here, by group id, and these shards."""
        found: dict[str, Any] = {}
        held = self._host.indices()
        for index in held:
            states = await self._host.shard(index).write(command, timeout=self._timeout)
            if isinstance(states, dict):
                found |= states
        return found, held
