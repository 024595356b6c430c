"""What a process takes from outside, replaced: time, chance, the way to other processes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from unittest.mock import patch

from sharebroker_protocol import clock
from sharebroker_server.testkit.simulator.loop import SimulatedLoop
from sharebroker_server.testkit.simulator.node import CURRENT

EPOCH: Final = 1_800_000_000.0
"""The wall clock when a simulation begins: 2027-01-15."""


@contextmanager
def simulated(loop: SimulatedLoop, seed: int, dial: Callable[..., Any]) -> Iterator[None]:
    """In force for all nodes of a run; each has its own clock, by its skew.

    `dial(address)` gives the channel to a process. Chance is `random`'s own and the system's, which make
    jitter, ids of members and of topics.
    """

    current = CURRENT.get

    def now() -> float:
        node = current()
        return EPOCH + loop.now * loop._pace + (node.skew if node is not None else 0.0)

    kept = random.getstate()
    bytes_of_chance = random.Random(seed ^ 0x5EED).randbytes
    random.seed(seed)
    try:
        with (
            clock.counted_by(now),
            patch("os.urandom", bytes_of_chance),
            patch("grpc.aio.insecure_channel", dial),
        ):
            yield
    finally:
        random.setstate(kept)
