"""A group is paused when too many of its records fail, and only then."""

from __future__ import annotations

from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import AckType
from sharebroker_server.config.group import GroupConfig
from sharebroker_server.share_partition_leader.core.events import Counts
from sharebroker_server.share_partition_leader.dead_letters.circuit_breaker import CircuitBreaker
from sharebroker_server.share_partition_leader.metrics.counters import GroupTopic

GUARDED = GroupConfig(share_breaker_failed_percent=50, share_breaker_min_records=10)


class Harness:
    """The counters of a leader, and the groups of the catalog."""

    most = 10

    def __init__(self) -> None:
        self.configs = {"g": GUARDED, "free": GroupConfig()}
        self.counts = {GroupTopic(group, topic): Counts() for group in ("g", "free") for topic in ("a", "b")}
        self.pauses: list[tuple[str, str]] = []
        self.error: KafkaError | None = None
        self.breaker = CircuitBreaker(self.counts.items, self)
        self.time = 0.0

    def limited(self) -> list[tuple[str, GroupConfig]]:
        return [pair for pair in self.configs.items() if pair[1].share_breaker_failed_percent]

    def paused(self) -> list[str]:
        return [group for group, config in self.configs.items() if config.share_paused]

    async def pause(self, group_id: str, reason: str) -> None:
        if self.error is not None:
            raise self.error
        self.pauses.append((group_id, reason))
        self.configs[group_id] = replace(self.configs[group_id], share_paused=True)

    async def check(
        self, *, accepted: int = 0, rejected: int = 0, exhausted: int = 0, group: str = "g"
    ) -> None:
        """Counts the outcomes of both topics, and compares a second later."""
        for topic in ("a", "b"):
            counts = self.counts[GroupTopic(group, topic)]
            counts.acknowledged[AckType.ACCEPT] += accepted
            counts.rejected += rejected
            counts.exhausted += exhausted
        self.time += 1.0
        await self.breaker.check(self.time)


def found(breaker: CircuitBreaker, name: str) -> dict[tuple[str, ...], float]:
    return {
        sample.labels: sample.value
        for family in breaker.families()
        if family.name == f"sharebroker_share_group_{name}"
        for sample in family.samples
    }


@pytest.fixture
async def harness() -> Harness:
    harness = Harness()
    await harness.check()
    return harness


async def test_a_group_of_which_too_many_records_fail_is_paused(harness: Harness) -> None:
    with capture_logs() as logs:
        await harness.check(accepted=2, rejected=2, exhausted=1)
    reason = "6 of 10 records failed within 60 s; share.breaker.failed.percent is 50."
    assert harness.pauses == [("g", reason)]
    assert [log["resume"] for log in logs] == ["sharebroker groups resume g"]


async def test_a_group_at_its_limit_is_not_paused(harness: Harness) -> None:
    await harness.check(accepted=100, rejected=100)
    assert not harness.pauses


async def test_few_records_do_not_pause_a_group(harness: Harness) -> None:
    await harness.check(rejected=4)
    assert not harness.pauses


async def test_a_group_without_a_limit_is_never_paused(harness: Harness) -> None:
    await harness.check(rejected=100, group="free")
    assert not harness.pauses


async def test_a_limit_does_not_apply_to_earlier_failures(harness: Harness) -> None:
    await harness.check(rejected=100, group="free")
    harness.configs["free"] = GUARDED
    await harness.check(group="free")
    await harness.check(accepted=10, group="free")
    assert not harness.pauses


async def test_a_resumed_group_is_paused_by_new_failures_only(harness: Harness) -> None:
    await harness.check(rejected=10)
    await harness.check(rejected=10)  # of records that members held at the pause
    assert len(harness.pauses) == 1
    harness.configs["g"] = GUARDED
    await harness.check(accepted=1)
    assert len(harness.pauses) == 1
    await harness.check(rejected=10)
    assert len(harness.pauses) == 2


async def test_a_pause_that_fails_is_repeated(harness: Harness) -> None:
    harness.error = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    await harness.check(rejected=10)
    assert not harness.pauses
    harness.error = None
    await harness.check()
    assert [group for group, _ in harness.pauses] == ["g"]


async def test_pauses_and_paused_groups_are_metrics(harness: Harness) -> None:
    assert not found(harness.breaker, "paused")
    await harness.check(rejected=10)
    assert found(harness.breaker, "paused") == {("group", "g"): 1}
    assert found(harness.breaker, "breaker_pauses_total") == {("group", "g"): 1}
