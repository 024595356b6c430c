"""The port between the runtime and a coordinator: the rules as a state machine, and the codec of its records.

A state machine has two kinds of state. *Durable state* changes by `apply` only, live and during replay.
*Soft state* is not in the log: session deadlines, operations in progress, the members of consumer groups.
It changes by `apply_soft`, and by `apply` where a record implies the change (a deleted member has no
session). A newly loaded machine starts with the soft state that its records imply.

`decide` and `on_deadline` change neither. They return a `Decision`, which the runtime either accepts as a
whole or discards as a whole; a discarded decision leaves no trace. The package docstring describes the order.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, Protocol, TypeVar

C = TypeVar("C")
R = TypeVar("R")
A = TypeVar("A")
C_contra = TypeVar("C_contra", contravariant=True)


class SoftChange:
    """Base class of changes to a machine's soft state.

    Applying one twice has the effect of applying it once.
    """

    __slots__ = ()


class Effect:
    """Base class of actions that the shell performs once the decision is durable."""

    __slots__ = ()


class Decision(NamedTuple, Generic[R, A]):
    """The result of a command (Kafka: CoordinatorResult).

    `records` are appended in order. `reply` is returned to the caller once they are durable; a reply that is
    a KafkaError is raised to the caller, but unlike an error that `decide` raises it does not discard the
    decision. `soft` changes the machine when the decision is accepted, `effects` are performed when it is
    durable.
    """

    records: tuple[R, ...]
    reply: A
    soft: tuple[SoftChange, ...] = ()
    effects: tuple[Effect, ...] = ()


class Machine(Protocol[C_contra, R, A]):
    """A shard's rules (Kafka: CoordinatorShard): pure and deterministic; time is an argument.

    `now` is in seconds since the Unix epoch. Replaying the records in order reproduces the durable state.
    """

    def decide(self, command: C_contra, now: float) -> Decision[R, A]:
        """Returns the decision about a command and changes nothing. Raises KafkaError."""

    def apply(self, record: R, position: int) -> None:
        """Applies the record at `position` of the shard's log, live or during replay."""

    def apply_soft(self, change: SoftChange) -> None:
        """Applies a soft change of an accepted decision, after its records."""

    def next_deadline(self) -> float | None:
        """Returns when `on_deadline` is due, possibly too early; None if nothing is due."""

    def on_deadline(self, now: float) -> Decision[R, None]:
        """Returns what is due, a few hundred records at most, and changes nothing."""

    def trim_before(self) -> int:
        """Returns the position below which records are redundant once all applied records are durable."""


class WithoutSoftState:
    """Mixin for machines whose decisions contain no soft changes."""

    def apply_soft(self, change: SoftChange) -> None:
        """Raises TypeError: this machine has no soft state."""
        raise TypeError(f"{type(self).__name__} has no soft state: {change!r}")


class RecordCodec(Protocol[R]):
    """Converts between records and the payloads of log entries."""

    def encode(self, record: R) -> bytes:
        """Returns the payload of a record."""

    def decode(self, payload: bytes) -> R:
        """Returns the record of a payload. Raises ValueError for an invalid one."""
