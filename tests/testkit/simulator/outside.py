"""Replaces the environment of a process: time, randomness and connections to peers."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from unittest.mock import patch

from sharebroker_protocol import clock
from tests.testkit.simulator.loop import SimulatedLoop
from tests.testkit.simulator.node import CURRENT

EPOCH: Final = 1_800_000_000.0
"""The wall clock at the start of a simulation: 2027-01-15."""


@contextmanager
def simulated(loop: SimulatedLoop, seed: int, dial: Callable[..., Any]) -> Iterator[None]:
    """Replaces the environment of all nodes of a run; each node has its own clock.

    `dial(address)` returns the channel to a process. Randomness is that of `random` and of the system, from
    which jitter, member ids and topic ids derive.
    """

    current = CURRENT.get

    def now() -> float:
        node = current()
        return EPOCH + loop.now * loop._pace + (node.skew if node is not None else 0.0)

    random_state = random.getstate()
    random_bytes = random.Random(seed ^ 0x5EED).randbytes
    random.seed(seed)
    try:
        with (
            clock.counted_by(now),
            patch("os.urandom", random_bytes),
            patch("grpc.aio.insecure_channel", dial),
        ):
            yield
    finally:
        random.setstate(random_state)
