"""A shard whose log or lease fails."""

from __future__ import annotations

import asyncio
import re
from collections.abc import MutableMapping, Sequence
from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.coordinator_runtime.lifecycle import ShardState
from sharebroker_server.coordinator_runtime.shard import ShardRuntime
from sharebroker_server.leases.port import LeaseLost, LeasesUnavailable
from tests.testkit.memory.stream_log import Fault
from tests.testkit.waiting import eventually
from tests.unit.coordinator_runtime.harness import SHARD, Get, Harness, Intending, LedgerCodec, Put, outcome

Logs = list[MutableMapping[str, Any]]


@pytest.mark.parametrize(
    ("fault", "code", "kept"),
    [
        (Fault.NOT_WRITTEN, ErrorCode.COORDINATOR_NOT_AVAILABLE, False),
        (Fault.LOST_UNKNOWN, ErrorCode.COORDINATOR_NOT_AVAILABLE, False),
        (Fault.DONE_UNKNOWN, ErrorCode.COORDINATOR_NOT_AVAILABLE, True),
    ],
)
async def test_failed_append_reloads_the_shard(fault: Fault, code: ErrorCode, kept: bool) -> None:
    harness = await Harness().opened()
    await harness.put("a", "1")
    harness.memory.fail_next_append(fault)
    harness.memory.hold()
    under_way = harness.shard.submit(Put("a", ("2",)))
    await asyncio.sleep(0)
    behind = harness.shard.submit(Put("b", ("1",)))
    harness.memory.release()
    assert await outcome(under_way) is code
    assert await outcome(behind) is code
    await harness.active()
    assert await harness.get("a") == ("2" if kept else "1")
    assert await harness.get("b") == ""
    assert await harness.put("b", "1") == "1"
    assert harness.lease.reclaims == (0 if fault is Fault.NOT_WRITTEN else 1)


async def test_reads_continue_while_the_store_rejects_writes() -> None:
    harness = await Harness(refusal_pause=0.05).opened()
    await harness.put("a", "1")
    harness.memory.full = True
    harness.memory.hold()
    under_way = harness.shard.submit(Put("a", ("2",)))
    await asyncio.sleep(0)
    behind = harness.shard.submit(Put("b", ("1",)))
    reading = harness.shard.submit(Get("a"))
    harness.memory.release()
    assert await outcome(reading) is ErrorCode.COORDINATOR_NOT_AVAILABLE  # may be requested again at once
    for refused in (under_way, behind):
        with pytest.raises(KafkaError, match="the store rejects writes: full on demand") as caught:
            await refused
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    await harness.active()
    with pytest.raises(KafkaError, match="the store rejects writes") as caught:
        harness.shard.submit(Put("a", ("3",)))  # the log is not even called
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert caught.value.retry_after is not None
    assert (await harness.get("a"), await harness.get("b")) == ("1", "")
    harness.memory.full = False

    async def written() -> bool:
        return await outcome(harness.put("a", "4")) == "4"

    await eventually(written)
    assert await harness.contents() == ["a=1", "a=4"]
    assert harness.lease.reclaims == 0


async def test_discarded_decision_leaves_no_soft_state_and_no_effect() -> None:
    harness = Harness(refusal_pause=0.05)
    harness.shard = ShardRuntime(
        SHARD, harness.lease, harness.log, Intending, LedgerCodec(), harness.settings
    )
    await harness.opened()
    harness.memory.full = True
    assert await outcome(harness.put("a")) is ErrorCode.KAFKA_STORAGE_ERROR  # rejected by the store
    await harness.active()
    assert await outcome(harness.put("a")) is ErrorCode.KAFKA_STORAGE_ERROR  # rejected by the runtime
    assert (await harness.get("intended"), harness.performed) == ("", [])


async def test_deadline_is_repeated_until_the_store_accepts_writes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    harness = await Harness(refusal_pause=0.001, deadline_pause=0.001, clock=lambda: 5.0).opened()
    appended: list[bytes] = []
    append = harness.memory.append

    async def fills_up(shard: str, epoch: int, first_position: int, payloads: Sequence[bytes]) -> None:
        appended.extend(payloads)
        await append(shard, epoch, first_position, payloads)
        harness.memory.full = True

    monkeypatch.setattr(harness.memory, "append", fills_up)
    await harness.put("at", "4")
    await eventually(lambda: appended.count(b"rung=5.0") > 3)
    harness.memory.full = False
    await eventually(lambda: harness.memory.full)
    assert await harness.contents() == ["at=4", "rung=5.0"]


async def test_deadline_waits_longer_than_commands_after_a_rejection() -> None:
    """A deadline that is rejected again and again would cost the soft state of the shard each time."""
    harness = await Harness(refusal_pause=0.001, deadline_pause=60.0, clock=lambda: 5.0).opened()
    harness.memory.full = True
    assert await outcome(harness.put("a")) is ErrorCode.KAFKA_STORAGE_ERROR
    await harness.active()
    harness.memory.full = False

    async def written() -> bool:
        return await outcome(harness.put("at", "4")) == "4"

    await eventually(written)
    await asyncio.sleep(0.05)  # far longer than a deadline in the past needs
    assert await harness.contents() == ["at=4"]


async def test_after_an_unknown_outcome_the_late_append_is_fenced() -> None:
    harness = await Harness().opened()
    harness.memory.fail_next_append(Fault.LOST_UNKNOWN)
    assert await outcome(harness.put("a", "late")) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    await harness.active()
    await harness.put("a", "1")
    with pytest.raises(Exception, match="epoch 1"):
        await harness.memory.append(SHARD, 1, 2, [b"a=late"])


async def test_fenced_shard_is_closed() -> None:
    harness = await Harness().opened()
    harness.memory.fail_next_append(Fault.FENCED)
    assert await outcome(harness.put("a")) is ErrorCode.NOT_COORDINATOR
    assert harness.shard.state is ShardState.CLOSED
    assert await outcome(harness.put("a")) is ErrorCode.NOT_COORDINATOR
    assert harness.lease.reclaims == 0


async def test_former_owner_cannot_write() -> None:
    harness = await Harness().opened()
    await harness.put("a", "1")
    other = await harness.takeover()
    assert await outcome(harness.put("a", "2")) is ErrorCode.NOT_COORDINATOR
    assert await other.get("a") == "1"


async def test_load_is_repeated_until_the_log_is_available(logs: Logs) -> None:
    harness = await Harness().opened()
    await harness.put("a", "1")
    harness.memory.away = True
    assert await outcome(harness.put("a", "2")) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    await eventually(lambda: any(entry["event"] == "shard not loaded" for entry in logs))
    assert await outcome(harness.put("a", "3")) in (
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    )
    harness.memory.away = False
    await harness.active()
    assert await harness.get("a") == "1"
    assert await harness.put("a", "4") == "4"


async def test_invalid_entry_prevents_the_load(
    logs: Logs,
) -> None:
    harness = await Harness().opened()
    await harness.put("a", "1")
    await harness.memory.append(SHARD, 1, 2, [b"\xff"])
    late = Harness(harness.log)
    late.shard.open(1)
    await eventually(lambda: any(entry["exc_info"] and "can't decode" in entry["error"] for entry in logs))
    assert late.shard.state is not ShardState.ACTIVE
    with pytest.raises(
        KafkaError, match="cannot be loaded: the entry at position 2 of its log is not a valid record"
    ):
        await late.put("a", "2")
    await late.shard.close()
    with pytest.raises(KafkaError, match=re.escape(f"{SHARD}: closed")):
        await late.put("a", "2")


async def test_record_that_cannot_be_applied_prevents_the_load() -> None:
    harness = await Harness().opened()
    await harness.memory.append(SHARD, 1, 1, [b"a=1", b"poison=1"])
    late = Harness(harness.log)
    late.shard.open(1)
    await eventually(lambda: late.shard.state is ShardState.FAILED)
    with pytest.raises(KafkaError, match="the entry at position 2 of its log cannot be applied"):
        await late.put("a", "2")
    await late.shard.close()


@pytest.mark.parametrize("refusal", [LeasesUnavailable("away"), LeaseLost(SHARD), RuntimeError("odd")])
async def test_failed_reclaim_is_repeated(refusal: Exception) -> None:
    harness = await Harness().opened()
    harness.lease.refusals.append(refusal)
    harness.memory.fail_next_append(Fault.DONE_UNKNOWN)
    assert await outcome(harness.put("a")) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    await harness.active()
    assert harness.lease.reclaims == 2
    assert await harness.get("a") == "1"


async def test_undocumented_log_error_counts_as_unknown_outcome(logs: Logs) -> None:
    harness = await Harness().opened()
    append = harness.memory.append

    async def broken(*args: object) -> None:
        harness.memory.append = append  # type: ignore[method-assign]  # only once
        raise ZeroDivisionError

    harness.memory.append = broken  # type: ignore[method-assign,assignment]  # a fault the twin does not offer
    assert await outcome(harness.put("a")) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    await harness.active()
    assert harness.lease.reclaims == 1
    assert "log raised an unexpected error" in [entry["event"] for entry in logs]


async def test_close_drains_pending_records() -> None:
    harness = await Harness(drain_timeout=5.0).opened()
    harness.memory.hold()
    under_way = harness.shard.submit(Put("a", ("1",)))
    await asyncio.sleep(0)
    behind = harness.shard.submit(Put("b", ("1",)))
    closing = asyncio.create_task(harness.shard.close())
    await asyncio.sleep(0)
    assert await outcome(harness.put("c")) is ErrorCode.NOT_COORDINATOR
    harness.memory.release()
    await closing
    assert (await under_way, await behind) == ("1", "1")
    await harness.shard.close()


async def test_close_waits_no_longer_than_drain_timeout() -> None:
    harness = await Harness(drain_timeout=0.01).opened()
    harness.memory.hold()
    under_way = harness.shard.submit(Put("a", ("1",)))
    await harness.shard.close()
    assert await outcome(under_way) is ErrorCode.NOT_COORDINATOR
    harness.memory.release()


@pytest.mark.parametrize("fault", [Fault.NOT_WRITTEN, Fault.LOST_UNKNOWN, Fault.DONE_UNKNOWN, Fault.FENCED])
async def test_failed_append_during_close_returns_not_coordinator(fault: Fault) -> None:
    harness = await Harness(drain_timeout=5.0).opened()
    harness.memory.fail_next_append(fault)
    harness.memory.hold()
    under_way = harness.shard.submit(Put("a", ("1",)))
    closing = asyncio.create_task(harness.shard.close())
    await asyncio.sleep(0)
    harness.memory.release()
    await closing
    assert await outcome(under_way) is ErrorCode.NOT_COORDINATOR
    assert harness.lease.reclaims == 0


async def test_shard_can_be_closed_before_and_during_its_load() -> None:
    harness = Harness()
    await harness.shard.close()
    assert harness.shard.state is ShardState.CLOSED
    loading = harness.new_shard()
    loading.open(1)
    await loading.close()
    assert loading.state is ShardState.CLOSED


async def test_log_that_lost_its_end_is_reloaded_without_a_write() -> None:
    harness = await Harness().opened()
    await harness.put("a", "1")
    kept = await harness.memory.read(SHARD, 0, 100)
    await harness.put("b", "1")
    await harness.shard.recheck()
    assert harness.shard.state is ShardState.ACTIVE
    await harness.memory.delete(SHARD)
    await harness.memory.append(SHARD, harness.lease.epoch, 1, [entry.payload for entry in kept])
    await harness.shard.recheck()
    assert await outcome(harness.get("b")) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    await harness.active()
    assert (await harness.get("a"), await harness.get("b")) == ("1", "")
    await harness.shard.recheck()
    assert harness.shard.state is ShardState.ACTIVE
