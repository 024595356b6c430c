"""Ending a benchmark early."""

from __future__ import annotations

import os
import signal

import pytest

from tests.perf.processes import interruptible


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_the_block_and_the_code_after_it_runs(number: int) -> None:
    before = signal.getsignal(number)
    done = []
    with interruptible():
        done.append("begun")
        os.kill(os.getpid(), number)
        done.append("not reached")
    assert done == ["begun"]
    assert signal.getsignal(number) is before
