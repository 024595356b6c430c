"""A simulated process: its callbacks, and whether they run."""

from __future__ import annotations

from collections import deque
from contextvars import Context, ContextVar, copy_context
from typing import Any, Final


class Node:
    """A process; callbacks carry the node in their context, so all tasks of a process belong to it.

    `skew` (seconds) is the initial offset of its clock, `pace` its speed. A node that does not run keeps its
    ready callbacks: a paused one continues with them, a killed one never does.
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
        """Returns a context for the tasks of this node."""
        context = copy_context()
        context.run(CURRENT.set, self)
        return context

    def __repr__(self) -> str:
        return self.name


CURRENT: Final = ContextVar[Node | None]("node", default=None)


def current() -> Node | None:
    """Returns the running node; None for networks, stores and clients, which are not under test."""
    return CURRENT.get()


def node_of(context: Context) -> Node | None:
    """Returns the node of a callback."""
    return context.get(CURRENT)
