from __future__ import annotations

from itertools import islice

from sharebroker_server.aio.backoff import doubling


def test_pauses_double_up_to_the_longest() -> None:
    assert list(islice(doubling(0.05, 0.3), 5)) == [0.05, 0.1, 0.2, 0.3, 0.3]
    assert list(islice(doubling(1.0, 1.0), 3)) == [1.0, 1.0, 1.0]
