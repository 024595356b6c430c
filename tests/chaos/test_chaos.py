"""The short version of `make chaos`: one fault of each main kind under a few clients."""

from __future__ import annotations

from random import Random

import pytest

from tests.chaos.actors import Size
from tests.chaos.deployment import deployed
from tests.chaos.faults import short_schedule
from tests.chaos.report import report
from tests.chaos.run import Chaos
from tests.testkit.checker.events import Verdict

LEASE = 4.0
SIZE = Size(partitions=2, grpc=4, librdkafka=2, java=0)


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.xdist_group("chaos")
async def test_invariants_hold_under_faults() -> None:
    messages: list[str] = []
    async with deployed(f"broker.session.timeout.ms={round(LEASE * 1000)}") as deployment:
        outcome = await Chaos(deployment, LEASE, Random(7), messages.append).run(
            short_schedule(), 600.0, SIZE
        )
    assert outcome.well, "\n".join([*messages, report(outcome)])
    assert len(outcome.struck) == len(short_schedule())
    assert outcome.history.count(Verdict.ACCEPT) > 0
