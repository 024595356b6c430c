"""The short version of `make chaos`: one fault of each main kind under a few clients."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from tests.chaos.actors import Size
from tests.chaos.deployment import deployed
from tests.chaos.faults import Fault, short_schedule, short_schedule_over_kafka
from tests.chaos.report import report
from tests.chaos.run import Chaos
from tests.support.kafka_tools import needs_kafka
from tests.testkit.checker.events import Verdict

LEASE = 4.0
SIZE = Size(partitions=2, grpc=4, librdkafka=2, java=0)


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.xdist_group("chaos")
async def test_invariants_hold_under_faults() -> None:
    await hold_under(short_schedule(), SIZE)


@needs_kafka
@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.xdist_group("chaos")
async def test_invariants_hold_for_records_in_kafka() -> None:
    await hold_under(short_schedule_over_kafka(), replace(SIZE, grpc_producers=0), upstream=True)


async def hold_under(faults: list[Fault], size: Size, *, upstream: bool = False) -> None:
    """Runs the faults; fails if an invariant broke or work did not continue."""
    timeout = f"broker.session.timeout.ms={round(LEASE * 1000)}"
    async with deployed(timeout, upstream=upstream) as deployment:
        outcome = await Chaos(deployment, LEASE, Random(7), print).run(faults, 600.0, size)
    assert outcome.well, report(outcome)
    assert len(outcome.struck) == len(faults)
    assert outcome.history.count(Verdict.ACCEPT) > 0
