"""What a coordinator gives the runtime: its rules as a machine, and the bytes of its records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

C = TypeVar("C")
R = TypeVar("R")
A = TypeVar("A")
C_contra = TypeVar("C_contra", contravariant=True)


class Decision(NamedTuple, Generic[R, A]):
    """Records to make durable, in order, and the reply that holds once they are."""

    records: tuple[R, ...]
    reply: A


class Machine(Protocol[C_contra, R, A]):
    """A shard's rules (Kafka's CoordinatorShard): pure, deterministic, time is an argument.

    `now` is in seconds since the Unix epoch. Replaying the records in order gives the live state.
    """

    def decide(self, command: C_contra, now: float) -> Decision[R, A]:
        """What the command changes; changes nothing itself. Raises KafkaError."""

    def apply(self, record: R, position: int) -> None:
        """The only mutation, live and at replay. `position` is the record's place in the shard's log."""

    def next_deadline(self) -> float | None:
        """When `on_deadline` is due; None when nothing is."""

    def on_deadline(self, now: float) -> Sequence[R]:
        """Records that time has made due, a few hundred at most a call; changes nothing itself."""

    def trim_before(self) -> int:
        """Records at positions below are redundant once all that was applied is durable; 0 for none."""


class Codec(Protocol[R]):
    """Records as bytes of one log entry."""

    def encode(self, record: R) -> bytes:
        """The payload of a record."""

    def decode(self, payload: bytes) -> R:
        """The record of a payload; raises ValueError when it is none."""
