"""Small requests that are expensive to validate do not delay other clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import pytest

from tests.hostile import payloads
from tests.hostile.attacks import crowd, topic_of
from tests.hostile.honest import honest_client
from tests.testkit.brokers import Cluster, one_process

pytestmark = pytest.mark.xdist_group("expensive-batches")

PARTITIONS: Final = 20
SECONDS: Final = 3.0
LONGEST: Final = 1.5
"""Seconds that an honest client may wait on a busy machine; `make hostile` measures more precisely."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with one_process("--fsync", "everysec") as cluster:
        yield cluster


@pytest.mark.parametrize(
    ("named", "batch"),
    [
        (range(PARTITIONS), payloads.consecutive),
        ([0] * 1000, payloads.repeated),
        (range(PARTITIONS), lambda: payloads.repeated(5_000, 20)),
        ([0], lambda: payloads.one_record(8_000_000)),
    ],
    ids=["many records", "a partition named often", "many headers", "a record with many headers"],
)
async def test_validation_of_expensive_batches_does_not_delay_others(
    cluster: Cluster, named: Sequence[int], batch: Callable[[], bytes]
) -> None:
    topic = await topic_of(cluster, PARTITIONS)
    request = payloads.produce(topic, named, batch())
    async with honest_client(cluster.address) as honest:
        await crowd(cluster.kafka, [[request]] * 4, SECONDS)
    assert honest.failures == []
    assert max(honest.publishes.longest, honest.acquires.longest, honest.acknowledges.longest) < LONGEST
