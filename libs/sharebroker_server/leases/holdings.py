"""What a lease holder keeps of a lease, and of those who work by it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Watch:
    """What a process does about the resources of one kind: which to own at all times, and whom to tell."""

    resources: Callable[[], Iterable[str]]
    role: str
    on_acquired: Callable[[str, int], Awaitable[None]]
    on_lost: Callable[[str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Holding:
    """A lease we hold: its epoch, and until when it is surely ours by our clock."""

    epoch: int
    valid_until: float
