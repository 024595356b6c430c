"""A small machine: keys and values, a list of applied records, timers on demand."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.coordinator_runtime.lifecycle import ShardState
from sharebroker_server.coordinator_runtime.machine import Decision, Effect, SoftChange, WithoutSoftState
from sharebroker_server.coordinator_runtime.shard import RuntimeSettings, ShardRuntime
from sharebroker_server.stream_log.port import StreamLog
from tests.support.lease import Lease
from tests.testkit.memory.stream_log import MemoryStreamLog
from tests.testkit.waiting import eventually

SHARD = "share-coordinator:7"


class Put(NamedTuple):
    """Set a key to values one after another; the reply is the last one."""

    key: str
    values: tuple[str, ...]


class Get(NamedTuple):
    """The reply is the value, "" for none."""

    key: str


Command = Put | Get


class Ledger(WithoutSoftState):
    """Records are "key=value". "poison" raises an error; "at" sets a deadline that writes "rung"."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.positions: dict[str, int] = {}
        self.last = 0

    def decide(self, command: Command, now: float) -> Decision[str, str]:
        if isinstance(command, Get):
            return Decision((), self.values.get(command.key, ""))
        if command.key == "":
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        return Decision(tuple(f"{command.key}={value}" for value in command.values), command.values[-1])

    def apply(self, record: str, position: int) -> None:
        if position != self.last + 1 and self.last:
            raise AssertionError(f"{position} after {self.last}")
        key, value = record.split("=")
        if key == "poison":
            raise RuntimeError("poison")
        self.values[key] = value
        self.positions[key] = self.last = position

    def next_deadline(self) -> float | None:
        at = self.values.get("at", "")
        return float(at) if at and "rung" not in self.values else None

    def on_deadline(self, now: float) -> Decision[str, None]:
        due = self.next_deadline()
        return Decision((f"rung={now}",) if due is not None and due <= now else (), None)

    def trim_before(self) -> int:
        return min(self.positions.values(), default=self.last + 1)


@dataclass(frozen=True, slots=True)
class IntendedChange(SoftChange):
    key: str


@dataclass(frozen=True, slots=True)
class IntendedEffect(Effect):
    key: str


class Intending(Ledger):
    """Has soft state: the key of the last accepted Put, which Get("intended") returns; "reject" is
    an error reply.
    """

    def __init__(self) -> None:
        super().__init__()
        self.intended = ""

    def decide(self, command: Command, now: float) -> Decision[str, Any]:
        if command == Get("intended"):
            return Decision((), self.intended)
        if isinstance(command, Get):
            return super().decide(command, now)
        change = IntendedChange(command.key)
        if command.key == "reject":
            return Decision((), KafkaError(ErrorCode.REBALANCE_IN_PROGRESS), (change,))
        return super().decide(command, now)._replace(soft=(change,), effects=(IntendedEffect(command.key),))

    def apply_soft(self, change: SoftChange) -> None:
        assert isinstance(change, IntendedChange)
        self.intended = change.key


class LedgerCodec:
    def encode(self, record: str) -> bytes:
        return record.encode("ascii")

    def decode(self, payload: bytes) -> str:
        return payload.decode("ascii")


QUICK = RuntimeSettings(
    backoff_first=0.0, backoff_most=0.0, drain_timeout=0.05, timer_floor=0.0, clock=lambda: 0.0
)


class Harness:
    """A shard on a memory log."""

    def __init__(self, log: StreamLog | None = None, **settings: object) -> None:
        self.memory = MemoryStreamLog()
        self.log = log or self.memory
        self.lease = Lease()
        self.performed: list[Effect] = []
        self.settings = replace(QUICK, **settings)  # type: ignore[arg-type]  # tests name real fields
        self.shard = self.new_shard()

    def new_shard(self) -> ShardRuntime[Command, str, str]:
        return ShardRuntime(SHARD, self.lease, self.log, Ledger, LedgerCodec(), self.settings)

    def perform(self, effect: Effect) -> None:
        self.performed.append(effect)

    async def opened(self) -> Harness:
        self.shard.open(self.lease.epoch, self.perform)
        await self.active()
        return self

    async def active(self) -> None:
        await eventually(lambda: self.shard.state is ShardState.ACTIVE)

    async def put(self, key: str, *values: str, timeout: float = 5.0) -> str:
        self.shard._settings = replace(self.settings, write_timeout=timeout)
        return await self.shard.submit(Put(key, values or ("1",)))

    async def get(self, key: str) -> str:
        return await self.shard.submit(Get(key))

    async def contents(self) -> list[str]:
        return [entry.payload.decode() for entry in await self.memory.read(SHARD, 0, 10_000)]

    async def takeover(self) -> Harness:
        """Returns the harness of a new owner of the shard."""
        other = Harness(self.log)
        other.memory = self.memory
        other.lease.epoch = self.lease.epoch + 1
        self.memory.fence(SHARD, other.lease.epoch)
        return await other.opened()


async def outcome(waited: Awaitable[str]) -> ErrorCode | str:
    """Returns the error code or the reply of a write."""
    try:
        return await waited
    except KafkaError as error:
        return error.code
