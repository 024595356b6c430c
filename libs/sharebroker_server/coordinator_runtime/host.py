"""The shards of one role in this process; lease changes open and close them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, Generic

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.coordinator_runtime.effects import Perform, no_effects
from sharebroker_server.coordinator_runtime.machine import A, C, Codec, Machine, R
from sharebroker_server.coordinator_runtime.settings import RuntimeSettings
from sharebroker_server.coordinator_runtime.shard import ShardRuntime
from sharebroker_server.leases import names
from sharebroker_server.leases.holder import LeaseOwnership
from sharebroker_server.leases.port import Holder
from sharebroker_server.stream_log.port import StreamLog


class ShardHost(Generic[C, R, A]):
    """Owns the shards of the resource kind `name`: shard 7 of "share-coordinator" is "share-coordinator:7".

    If `shards` is None there is a single shard with number 0, and `name` is its resource name.
    """

    def __init__(
        self,
        name: str,
        shards: int | None,
        log: StreamLog,
        machine: Callable[[int], Machine[C, R, A]],
        codec: Codec[R],
        settings: RuntimeSettings,
    ) -> None:
        self.name = name
        self.shards = shards
        self._log = log
        self._machine = machine
        self._codec = codec
        self._settings = settings
        self._held: dict[int, ShardRuntime[C, R, A]] = {}

    def resource(self, index: int) -> str:
        """Returns the name of a shard's lease and log."""
        return self.name if self.shards is None else names.shard(self.name, index)

    def shard(self, index: int) -> ShardRuntime[C, R, A]:
        """Returns the runtime of an owned shard, in any state. Raises NOT_COORDINATOR."""
        shard = self._held.get(index)
        if shard is None:
            raise KafkaError(
                ErrorCode.NOT_COORDINATOR, f"{self.resource(index)} is not owned by this process"
            )
        return shard

    def indices(self) -> list[int]:
        """Returns the numbers of the owned shards."""
        return sorted(self._held)

    def held(self) -> Iterator[ShardRuntime[C, R, A]]:
        """Returns all owned shards, ordered by number."""
        return (self._held[index] for index in sorted(self._held))

    async def list_all(self, command: C, timeout: float) -> tuple[dict[str, Any], list[int]]:
        """Returns the joint reply of all owned shards to a command that lists by id, and their numbers."""
        found: dict[str, Any] = {}
        indices = self.indices()
        for index in indices:
            reply = await self.shard(index).write(command, timeout=timeout)
            if isinstance(reply, dict):
                found |= reply
        return found, indices

    async def start(self, holder: Holder, perform: Perform = no_effects) -> None:
        """Lets the lease holder open and close the shards; `perform` executes the effects of their
        decisions.
        """

        async def acquired(resource: str, epoch: int) -> None:
            index = indices[resource]
            await self._close(index)
            shard = self._held[index] = ShardRuntime(
                resource,
                LeaseOwnership(holder, resource),
                self._log,
                lambda: self._machine(index),
                self._codec,
                self._settings,
            )
            shard.open(epoch, perform)

        async def lost(resource: str) -> None:
            await self._close(indices[resource])

        indices = {self.resource(index): index for index in range(self.shards or 1)}
        holder.register(self.name, lambda: indices, names.ROLES[self.name], acquired, lost)

    async def recheck(self) -> None:
        """Reloads each shard whose log ends before its memory. Raises LogUnavailable."""
        await asyncio.gather(*(shard.recheck() for shard in self.held()))

    async def stop(self) -> None:
        """Closes every shard; must run before the leases are released."""
        await asyncio.gather(*(self._close(index) for index in tuple(self._held)))

    async def _close(self, index: int) -> None:
        shard = self._held.pop(index, None)
        if shard is not None:
            await shard.close()
