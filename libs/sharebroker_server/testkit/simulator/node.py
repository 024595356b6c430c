"""A simulated process: which callbacks are its own, and whether they get to run."""

from __future__ import annotations

from collections import deque
from contextvars import Context, ContextVar, copy_context
from typing import Any, Final


class Node:
    """Callbacks carry the node in their context, so whatever a process starts belongs to it.

    `skew` (seconds) is how far its clock is ahead at first, `pace` how many of its seconds one takes. A node
    that does not run keeps what is ready: a paused one goes on with it, a killed one never does.
    """

    __slots__ = ("killed", "name", "pace", "paused", "ready", "skew")

    def __init__(self, name: str, skew: float = 0.0, pace: float = 1.0) -> None:
        self.name = name
        self.skew = skew
        self.pace = pace
        self.paused = False
        self.killed = False
        self.ready: deque[Any] = deque()

    def context(self) -> Context:
        """For the tasks of this node."""
        context = copy_context()
        context.run(CURRENT.set, self)
        return context

    def __repr__(self) -> str:
        return self.name


CURRENT: Final = ContextVar[Node | None]("node", default=None)


def current() -> Node | None:
    """The node whose code runs; None for networks, stores and clients, which are not under test."""
    return CURRENT.get()


def node_of(context: Context) -> Node | None:
    """The node that a callback belongs to."""
    return context.get(CURRENT)
