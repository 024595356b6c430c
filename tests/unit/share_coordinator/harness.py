"""A share coordinator's shard without a runtime: every record is durable at once."""

from __future__ import annotations

from collections.abc import Iterable

from sharebroker_protocol.model import SharePartitionKey, StateBatch
from sharebroker_server.share_coordinator.core.checkpointing import CheckpointRules
from sharebroker_server.share_coordinator.core.commands import (
    Command,
    Inspect,
    Inspection,
    Read,
    Reply,
    Write,
)
from sharebroker_server.share_coordinator.core.machine import ShareCoordinatorMachine
from sharebroker_server.share_coordinator.core.state import ShareRecord, ShareState

TOPIC = "AQIDBAUGBwgJCgsMDQ4PEA"
OTHER_TOPIC = "EBAPDg0MCwoJCAcGBQQDAg"
KEY = SharePartitionKey("G1", TOPIC, 0)
NOW = 1_000_000.0

AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4

Entry = tuple[int, ShareRecord]
"""A position and its record."""


class Shard:
    """Runs commands against a machine and keeps its records, as a log would."""

    def __init__(
        self, rules: CheckpointRules = CheckpointRules(), log: Iterable[Entry] = (), end: int = 0
    ) -> None:
        self.rules = rules
        self.end = end
        self.now = NOW
        self.machine = ShareCoordinatorMachine(rules)
        self.log: list[Entry] = []
        for position, record in log:
            self.machine.apply(record, position)
            self.log.append((position, record))
            self.end = position

    def run(self, command: Command, *, keep: int | None = None) -> Reply:
        """Decides and applies; with `keep` only that many of the records are written, as at a crash."""
        decision = self.machine.decide(command, self.now)
        self.write(decision.records[:keep])
        return decision.reply

    def write(self, records: Iterable[ShareRecord]) -> None:
        """Applies records at the end of the log."""
        for record in records:
            self.end += 1
            self.machine.apply(record, self.end)
            self.log.append((self.end, record))

    def tick(self, seconds: float) -> list[ShareRecord]:
        """Advances the time and runs everything that is due."""
        self.now += seconds
        made: list[ShareRecord] = []
        while (due := self.machine.next_deadline()) is not None and due <= self.now:
            records = self.machine.on_deadline(self.now).records
            made += records
            self.write(records)
        return made

    def trim(self) -> None:
        """Trims the records that the machine no longer needs."""
        before = self.machine.trim_before()
        self.log = [(position, record) for position, record in self.log if position >= before]

    def state(self, key: SharePartitionKey = KEY) -> ShareState | None:
        """The live value of a key."""
        reply = self.machine.decide(Inspect(key), self.now).reply
        assert isinstance(reply, Inspection)
        return reply.state

    def records(self) -> list[ShareRecord]:
        """All records, without positions."""
        return [record for _, record in self.log]

    def replayed(self) -> Shard:
        """Returns the shard of the next owner, replayed from the log."""
        return Shard(self.rules, self.log, self.end)


def same(left: Shard, right: Shard, keys: Iterable[SharePartitionKey]) -> bool:
    """Whether two shards have the same state and the same deadlines."""
    far = 1e12
    return (
        all(left.state(key) == right.state(key) for key in keys)
        and left.machine.next_deadline() == right.machine.next_deadline()
        and left.machine.on_deadline(far) == right.machine.on_deadline(far)
    )


def batch(first: int, last: int, state: int = ACKNOWLEDGED, count: int = 1) -> StateBatch:
    """A state batch; by default acknowledged at the first delivery."""
    return StateBatch(first, last, state, count)


def read(leader_epoch: int, key: SharePartitionKey = KEY) -> Read:
    """Returns a read of the leader that owns the partition's lease."""
    return Read(key, leader_epoch, leader_epoch)


def write(
    *batches: StateBatch,
    start: int = -1,
    key: SharePartitionKey = KEY,
    state_epoch: int = 1,
    leader_epoch: int = 1,
    count: int = -1,
) -> Write:
    """Returns a write with defaults."""
    return Write(key, state_epoch, leader_epoch, start, count, batches)
