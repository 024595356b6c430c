"""What a shard does when its log or its lease fails."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.coordinator_runtime.lifecycle import ShardState
from sharebroker_server.coordinator_runtime.machine import Decision
from sharebroker_server.coordinator_runtime.shard import ShardRuntime
from sharebroker_server.leases.holder import LeaseLost
from sharebroker_server.leases.port import LeasesUnavailable
from sharebroker_server.stream_log.memory import Fault
from sharebroker_server.testkit.waiting import eventually
from tests.unit.coordinator_runtime.ledger import SHARD, Command, Get, Ledger, LedgerCodec, Put, Rig, outcome


@pytest.mark.parametrize(
    ("fault", "code", "kept"),
    [
        (Fault.NOT_WRITTEN, ErrorCode.COORDINATOR_NOT_AVAILABLE, False),
        (Fault.LOST_UNKNOWN, ErrorCode.COORDINATOR_NOT_AVAILABLE, False),
        (Fault.DONE_UNKNOWN, ErrorCode.COORDINATOR_NOT_AVAILABLE, True),
    ],
)
async def test_a_failed_append_throws_memory_away_and_loads_again(
    fault: Fault, code: ErrorCode, kept: bool
) -> None:
    rig = await Rig().opened()
    await rig.put("a", "1")
    rig.memory.fail_next_append(fault)
    rig.memory.hold()
    under_way = rig.shard.submit(Put("a", ("2",)), timeout=5)
    await asyncio.sleep(0)
    behind = rig.shard.submit(Put("b", ("1",)), timeout=5)
    rig.memory.release()
    assert await outcome(under_way) is code
    assert await outcome(behind) is code
    await rig.active()
    assert await rig.get("a") == ("2" if kept else "1")
    assert await rig.get("b") == ""
    assert await rig.put("b", "1") == "1"
    assert rig.lease.reclaims == (0 if fault is Fault.NOT_WRITTEN else 1)


async def test_reading_goes_on_while_the_log_is_full() -> None:
    rig = await Rig(refusal_pause=0.05).opened()
    await rig.put("a", "1")
    rig.memory.full = True
    rig.memory.hold()
    under_way = rig.shard.submit(Put("a", ("2",)), timeout=5)
    await asyncio.sleep(0)
    behind = rig.shard.submit(Put("b", ("1",)), timeout=5)
    reading = rig.shard.submit(Get("a"), timeout=5)
    rig.memory.release()
    assert await outcome(reading) is ErrorCode.COORDINATOR_NOT_AVAILABLE  # may be asked again at once
    for refused in (under_way, behind):
        with pytest.raises(KafkaError, match="the store refused: full on demand") as caught:
            await refused
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    await rig.active()
    with pytest.raises(KafkaError, match="the store refused") as caught:
        rig.shard.submit(Put("a", ("3",)), timeout=5)  # the log is not even asked
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert caught.value.retry_after is not None
    assert (await rig.get("a"), await rig.get("b")) == ("1", "")
    rig.memory.full = False

    async def written() -> bool:
        return await outcome(rig.put("a", "4")) == "4"

    await eventually(written)
    assert await rig.contents() == ["a=1", "a=4"]
    assert rig.lease.reclaims == 0


class Intending(Ledger):
    """Remembers what it decided, without having it written: as coordinators do of what is being done."""

    def decide(self, command: Command, now: float) -> Decision[str, str]:
        if isinstance(command, Put):
            self.values["meant"] = command.key
        return super().decide(command, now)


async def test_what_was_decided_in_vain_is_forgotten() -> None:
    rig = Rig(refusal_pause=0.05)
    rig.shard = ShardRuntime(SHARD, rig.lease, rig.log, Intending, LedgerCodec(), rig.settings)
    await rig.opened()
    rig.memory.full = True

    async def decided_in_vain() -> bool:
        await outcome(rig.put("a"))
        return await outcome(rig.get("meant")) == "a"

    await eventually(decided_in_vain)
    rig.memory.full = False

    async def forgotten() -> bool:
        return await outcome(rig.get("meant")) == ""

    await eventually(forgotten)


async def test_what_is_due_is_tried_again_until_the_log_is_not_full_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = await Rig(refusal_pause=0.001, clock=lambda: 5.0).opened()
    asked: list[bytes] = []
    append = rig.memory.append

    async def fills_up(shard: str, epoch: int, first_position: int, payloads: Sequence[bytes]) -> None:
        asked.extend(payloads)
        await append(shard, epoch, first_position, payloads)
        rig.memory.full = True

    monkeypatch.setattr(rig.memory, "append", fills_up)
    await rig.put("at", "4")
    await eventually(lambda: asked.count(b"rung=5.0") > 3)
    rig.memory.full = False
    await eventually(lambda: rig.memory.full)
    assert await rig.contents() == ["at=4", "rung=5.0"]


async def test_after_an_unknown_outcome_the_late_append_is_fenced() -> None:
    rig = await Rig().opened()
    rig.memory.fail_next_append(Fault.LOST_UNKNOWN)
    assert await outcome(rig.put("a", "late")) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    await rig.active()
    await rig.put("a", "1")
    with pytest.raises(Exception, match="epoch 1"):
        await rig.memory.append(SHARD, 1, 2, [b"a=late"])


async def test_a_fenced_shard_is_closed_for_good() -> None:
    rig = await Rig().opened()
    rig.memory.fail_next_append(Fault.FENCED)
    assert await outcome(rig.put("a")) is ErrorCode.NOT_COORDINATOR
    assert rig.shard.state is ShardState.CLOSED
    assert await outcome(rig.put("a")) is ErrorCode.NOT_COORDINATOR
    assert rig.lease.reclaims == 0


async def test_a_past_owner_can_write_no_more() -> None:
    rig = await Rig().opened()
    await rig.put("a", "1")
    other = await rig.takeover()
    assert await outcome(rig.put("a", "2")) is ErrorCode.NOT_COORDINATOR
    assert await other.get("a") == "1"


async def test_loading_waits_for_the_log_to_come_back(caplog: pytest.LogCaptureFixture) -> None:
    rig = await Rig().opened()
    await rig.put("a", "1")
    rig.memory.away = True
    assert await outcome(rig.put("a", "2")) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    await eventually(lambda: "not loaded" in caplog.text)
    assert await outcome(rig.put("a", "3")) in (
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    )
    rig.memory.away = False
    await rig.active()
    assert await rig.get("a") == "1"
    assert await rig.put("a", "4") == "4"


async def test_an_entry_that_is_no_record_keeps_the_shard_from_serving(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig = await Rig().opened()
    await rig.put("a", "1")
    await rig.memory.append(SHARD, 1, 2, [b"\xff"])
    late = Rig(rig.log)
    late.shard.open(1)
    await eventually(lambda: "UnicodeDecodeError" in caplog.text)
    assert late.shard.state is not ShardState.ACTIVE
    with pytest.raises(KafkaError, match="cannot be loaded: the entry at position 2 of its log is no record"):
        await late.put("a", "2")
    await late.shard.close()
    with pytest.raises(KafkaError, match=re.escape(f"{SHARD}: no longer ours; for good")):
        await late.put("a", "2")


async def test_a_record_that_cannot_be_applied_keeps_the_shard_from_serving() -> None:
    rig = await Rig().opened()
    await rig.memory.append(SHARD, 1, 1, [b"a=1", b"poison=1"])
    late = Rig(rig.log)
    late.shard.open(1)
    await eventually(lambda: late.shard.state is ShardState.FAILED)
    with pytest.raises(KafkaError, match="the entry at position 2 of its log cannot be applied"):
        await late.put("a", "2")
    await late.shard.close()


@pytest.mark.parametrize("refusal", [LeasesUnavailable("away"), LeaseLost(SHARD), RuntimeError("odd")])
async def test_a_failed_reclaim_is_tried_again(refusal: Exception) -> None:
    rig = await Rig().opened()
    rig.lease.refusals.append(refusal)
    rig.memory.fail_next_append(Fault.DONE_UNKNOWN)
    assert await outcome(rig.put("a")) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    await rig.active()
    assert rig.lease.reclaims == 2
    assert await rig.get("a") == "1"


async def test_a_log_that_breaks_its_promise_counts_as_unknown(caplog: pytest.LogCaptureFixture) -> None:
    rig = await Rig().opened()
    append = rig.memory.append

    async def broken(*args: object) -> None:
        rig.memory.append = append  # type: ignore[method-assign]  # only once
        raise ZeroDivisionError

    rig.memory.append = broken  # type: ignore[method-assign,assignment]  # a fault the twin does not offer
    assert await outcome(rig.put("a")) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    await rig.active()
    assert rig.lease.reclaims == 1
    assert "does not promise" in caplog.text


async def test_closing_lets_what_is_under_way_become_durable() -> None:
    rig = await Rig(drain_timeout=5.0).opened()
    rig.memory.hold()
    under_way = rig.shard.submit(Put("a", ("1",)), timeout=5)
    await asyncio.sleep(0)
    behind = rig.shard.submit(Put("b", ("1",)), timeout=5)
    closing = asyncio.create_task(rig.shard.close())
    await asyncio.sleep(0)
    assert await outcome(rig.put("c")) is ErrorCode.NOT_COORDINATOR
    rig.memory.release()
    await closing
    assert (await under_way, await behind) == ("1", "1")
    await rig.shard.close()


async def test_closing_waits_no_longer_than_told() -> None:
    rig = await Rig(drain_timeout=0.01).opened()
    rig.memory.hold()
    under_way = rig.shard.submit(Put("a", ("1",)), timeout=5)
    await rig.shard.close()
    assert await outcome(under_way) is ErrorCode.NOT_COORDINATOR
    rig.memory.release()


@pytest.mark.parametrize("fault", [Fault.NOT_WRITTEN, Fault.LOST_UNKNOWN, Fault.DONE_UNKNOWN, Fault.FENCED])
async def test_an_append_that_fails_while_closing_sends_callers_elsewhere(fault: Fault) -> None:
    rig = await Rig(drain_timeout=5.0).opened()
    rig.memory.fail_next_append(fault)
    rig.memory.hold()
    under_way = rig.shard.submit(Put("a", ("1",)), timeout=5)
    closing = asyncio.create_task(rig.shard.close())
    await asyncio.sleep(0)
    rig.memory.release()
    await closing
    assert await outcome(under_way) is ErrorCode.NOT_COORDINATOR
    assert rig.lease.reclaims == 0


async def test_a_shard_may_be_closed_while_it_loads_or_before() -> None:
    rig = Rig()
    await rig.shard.close()
    assert rig.shard.state is ShardState.CLOSED
    loading = rig.new_shard()
    loading.open(1)
    await loading.close()
    assert loading.state is ShardState.CLOSED


async def test_a_log_that_lost_its_end_is_loaded_anew_though_nothing_is_written() -> None:
    rig = await Rig().opened()
    await rig.put("a", "1")
    kept = await rig.memory.read(SHARD, 0, 100)
    await rig.put("b", "1")
    await rig.shard.recheck()
    assert rig.shard.state is ShardState.ACTIVE
    await rig.memory.delete(SHARD)
    await rig.memory.append(SHARD, rig.lease.epoch, 1, [entry.payload for entry in kept])
    await rig.shard.recheck()
    assert await outcome(rig.shard.write(Get("b"), timeout=5.0)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    await rig.active()
    assert (await rig.get("a"), await rig.get("b")) == ("1", "")
    await rig.shard.recheck()
    assert rig.shard.state is ShardState.ACTIVE
