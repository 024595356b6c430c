"""Soft changes and effects of decisions: when the runtime applies and performs them."""

from __future__ import annotations

import asyncio

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.coordinator_runtime.machine import Effect
from sharebroker_server.coordinator_runtime.shard import ShardRuntime
from tests.testkit.memory.stream_log import Fault
from tests.unit.coordinator_runtime.harness import (
    SHARD,
    Get,
    Harness,
    IntendedEffect,
    Intending,
    LedgerCodec,
    Put,
    outcome,
)


class Performing(Harness):
    def __init__(self) -> None:
        super().__init__()
        self.shard = ShardRuntime(SHARD, self.lease, self.log, Intending, LedgerCodec(), self.settings)

    def perform(self, effect: Effect) -> None:
        super().perform(effect)
        if effect == IntendedEffect("broken"):
            raise RuntimeError("on demand")


async def test_soft_change_precedes_the_append_and_effect_follows_it() -> None:
    harness = Performing()
    await harness.opened()
    harness.memory.hold()
    first = harness.shard.submit(Put("a", ("1",)))
    await asyncio.sleep(0)
    seen = harness.shard.submit(Get("intended"))
    second = harness.shard.submit(Put("b", ("1",)))
    assert harness.performed == []
    harness.memory.release()
    assert [await first, await seen, await second] == ["1", "a", "1"]
    assert harness.performed == [IntendedEffect("a"), IntendedEffect("b")]


@pytest.mark.parametrize("fault", [Fault.NOT_WRITTEN, Fault.LOST_UNKNOWN, Fault.FENCED])
async def test_failed_append_drops_soft_changes_and_effects(fault: Fault) -> None:
    harness = Performing()
    await harness.opened()
    generation = harness.shard.load_generation
    harness.memory.fail_next_append(fault)
    assert isinstance(await outcome(harness.put("a")), ErrorCode)
    assert harness.performed == []
    if fault is not Fault.FENCED:
        await harness.active()
        assert await harness.get("intended") == ""
        assert harness.shard.load_generation != generation


async def test_error_reply_is_raised_and_its_soft_change_applied() -> None:
    harness = Performing()
    await harness.opened()
    with pytest.raises(KafkaError) as rejected:
        await harness.put("reject")
    assert rejected.value.code is ErrorCode.REBALANCE_IN_PROGRESS
    assert await harness.get("intended") == "reject"


async def test_decision_without_records_is_discarded_if_the_lease_may_have_expired() -> None:
    harness = Performing()
    await harness.opened()
    harness.lease.held = False
    with pytest.raises(KafkaError, match="lease may have expired"):
        await harness.put("reject")
    harness.lease.held = True
    assert await harness.get("intended") == ""


async def test_effect_that_fails_does_not_stop_the_shard() -> None:
    harness = Performing()
    await harness.opened()
    assert await harness.put("broken") == "1"
    assert await harness.put("a") == "1"
    assert harness.performed == [IntendedEffect("broken"), IntendedEffect("a")]
