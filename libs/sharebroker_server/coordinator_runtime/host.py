"""The shards of one role in this process: lease changes open and close them, and a key selects one."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, reduce
from typing import Any, Generic, TypeVar

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.coordinator_runtime.lifecycle import ShardState
from sharebroker_server.coordinator_runtime.machine import A, C, Machine, R, RecordCodec
from sharebroker_server.coordinator_runtime.pending import Perform, no_effects
from sharebroker_server.coordinator_runtime.shard import RuntimeSettings, ShardRuntime
from sharebroker_server.leases import names
from sharebroker_server.leases.holder import LeaseHolder, LeaseOwnership
from sharebroker_server.stream_log.port import StreamLog
from sharebroker_server.telemetry.metrics import Family, gauge

T = TypeVar("T")


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
        codec: RecordCodec[R],
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

    def of(self, key: str) -> ShardRuntime[C, R, A]:
        """Returns the owned shard that a key selects. Raises NOT_COORDINATOR."""
        return self.shard(shard_of(key, self.shards or 1))

    async def request(self, key: str, command: C, kind: type[T]) -> T:
        """Returns the reply of a key's shard to a command.

        Raises as `ShardRuntime.submit` does, and UNKNOWN_SERVER_ERROR for a reply of another kind.
        """
        return expected(await self.of(key).submit(command), kind)

    async def list_all(self, command: C) -> tuple[dict[str, Any], list[int]]:
        """Returns the joint reply of all owned shards to a command that lists by id, and their numbers."""
        found: dict[str, Any] = {}
        indices = self.indices()
        for index in indices:
            reply = await self.shard(index).submit(command)
            if isinstance(reply, dict):
                found |= reply
        return found, indices

    async def start(self, holder: LeaseHolder, perform: Perform = no_effects) -> None:
        """Lets the lease holder open and close the shards.

        `perform` executes the effects of their decisions.
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
        holder.register(self.name, lambda: indices, names.ROLE_BY_KIND[self.name], acquired, lost)

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


def expected(reply: object, kind: type[T]) -> T:
    """Returns the reply if it is of this kind. Raises UNKNOWN_SERVER_ERROR."""
    if not isinstance(reply, kind):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"The reply is {reply!r}, not a {kind.__name__}.")
    return reply


def java_string_hash(text: str) -> int:
    """Returns Java's `String.hashCode()`: computed over UTF-16 code units, a signed 32-bit number."""
    encoded = text.encode("utf-16-be", "surrogatepass")
    units = (encoded[i] << 8 | encoded[i + 1] for i in range(0, len(encoded), 2))
    unsigned = reduce(lambda hashed, unit: (31 * hashed + unit) & 0xFFFFFFFF, units, 0)
    return unsigned - (1 << 32) if unsigned >> 31 else unsigned


@lru_cache(65_536)  # called for every state write, and Java's hash is a loop in Python
def shard_of(key: str, shards: int) -> int:
    """Returns `Utils.abs(hash) % shards`; Kafka defines the absolute value of -2**31 as 0."""
    hashed = java_string_hash(key)
    return 0 if hashed == -(1 << 31) else abs(hashed) % shards


AnyHost = ShardHost[Any, Any, Any]


def shard_families(hosts: Sequence[AnyHost]) -> Iterable[Family]:
    """Yields the metrics of the shards that this process owns."""
    yield gauge(
        "sharebroker_shards",
        "Coordinator shards that this process owns, by state (Kafka: num-partitions).",
        (
            (("coordinator", host.name, "state", state.name.lower()), states[state])
            for host in hosts
            for states in [Counter(shard.state for shard in host.held())]
            for state in ShardState
        ),
    )
    yield gauge(
        "sharebroker_shard_last_pruned_offset",
        "Last position at which the log of a shard was trimmed (Kafka: last-pruned-offset).",
        ((("shard", shard.shard), shard.trimming.before - 1) for host in hosts for shard in host.held()),
    )


def not_active(hosts: Iterable[AnyHost]) -> list[str]:
    """Returns the owned shards that do not accept commands yet."""
    return [shard.shard for host in hosts for shard in host.held() if shard.state is not ShardState.ACTIVE]
