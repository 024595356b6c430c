"""Keeps full garbage collections short: objects that have survived one are not visited by the next.

A full collection visits every object that may be part of a cycle, and nothing else runs meanwhile. Frozen
objects are not visited. They are freed as usual when nothing refers to them, unless they are in a cycle.
"""

from __future__ import annotations

import gc
import time
from enum import Enum
from typing import Any, Final

_THRESHOLDS: Final = (50_000, 0, 1)
"""Thresholds of the generations. The first is high: hardly any of our objects are in cycles.

The others are low: every second collection visits the survivors of the one before, and a full collection
takes place after 250,000 new objects, not after two million.
"""

_OLDEST: Final = 2
"""The generation of a full collection."""

LONG: Final = 0.02
"""Seconds of CPU; the survivors of a longer collection are frozen. It visits about 100,000 objects."""

MIN_VISITS: Final = 0.5
"""Seconds of collections after which frozen objects are visited again: about three million objects."""


class Survivors(Enum):
    """What happens to the survivors of a full collection."""

    STAY = "stay"
    FREEZE = "freeze"
    UNFREEZE = "unfreeze"
    """The frozen objects return: the next full collection visits all objects."""


class FreezeRule:
    """Decides what happens to the survivors of each full collection.

    The time of a collection stands for the number of objects that it visits. Objects in frozen cycles are
    freed only by a collection of all objects. One takes place when as many objects were frozen as the last
    one visited, and at least as many as `MIN_VISITS` allows.
    """

    __slots__ = ("_frozen", "_limit", "_visits_all")

    def __init__(self) -> None:
        self._frozen = 0.0
        self._limit = MIN_VISITS
        self._visits_all = False

    def after(self, seconds: float) -> Survivors:
        """Decides after a full collection that took so many seconds of CPU."""
        if self._visits_all:
            self._visits_all = False
            self._frozen, self._limit = 0.0, max(MIN_VISITS, seconds)
            return Survivors.FREEZE
        if seconds <= LONG:
            return Survivors.STAY
        self._frozen += seconds
        if self._frozen <= self._limit:
            return Survivors.FREEZE
        self._visits_all = True
        return Survivors.UNFREEZE


class CollectionObserver:
    """A callback of the garbage collector that applies a `FreezeRule` after each full collection."""

    __slots__ = ("_begun", "_rule")

    def __init__(self) -> None:
        self._rule = FreezeRule()
        self._begun = 0.0

    def __call__(self, phase: str, info: dict[str, Any]) -> None:
        """Is called before and after each collection."""
        if info["generation"] != _OLDEST:
            return
        if phase == "start":
            self._begun = time.thread_time()
            return
        match self._rule.after(time.thread_time() - self._begun):
            case Survivors.FREEZE:
                gc.freeze()
            case Survivors.UNFREEZE:
                gc.unfreeze()


def shorten_collections() -> None:
    """Freezes what a started process has loaded, and keeps later collections rare and short."""
    gc.collect()
    gc.freeze()  # a full collection of the loaded modules takes 15 milliseconds
    gc.set_threshold(*_THRESHOLDS)
    gc.callbacks.append(CollectionObserver())
