"""One shard on a memory log: groups, replies, loading, timers, trimming."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.coordinator_runtime.lifecycle import ShardState
from sharebroker_server.coordinator_runtime.pending import PendingRecords
from sharebroker_server.coordinator_runtime.shard import EarliestTimer, RuntimeSettings, Trimming
from sharebroker_server.stream_log.port import LogNotWritten
from tests.testkit.waiting import eventually
from tests.unit.coordinator_runtime.harness import SHARD, Get, Harness, Ledger, Put, outcome

Logs = list[MutableMapping[str, Any]]


async def test_acknowledged_write_is_in_the_log() -> None:
    harness = await Harness().opened()
    assert await harness.put("a", "1") == "1"
    assert await harness.contents() == ["a=1"]
    assert await harness.get("a") == "1"
    await harness.shard.close()


async def test_rejected_command_writes_nothing() -> None:
    harness = await Harness().opened()
    assert await outcome(harness.put("", "1")) is ErrorCode.INVALID_REQUEST
    assert await harness.contents() == []


async def test_commands_of_one_loop_iteration_share_an_append() -> None:
    harness = await Harness().opened()
    await asyncio.gather(*(harness.put(str(n)) for n in range(10)))
    assert harness.memory.appends == [(SHARD, 1, 10)]


async def test_writes_during_an_append_form_the_next_group() -> None:
    harness = await Harness().opened()
    harness.memory.hold()
    first = harness.shard.submit(Put("a", ("1",)))
    await asyncio.sleep(0)
    rest = [harness.shard.submit(Put("a", (str(n),))) for n in range(2, 6)]
    read = harness.shard.submit(Get("a"))
    await asyncio.sleep(0)
    assert not first.done()
    harness.memory.release()
    assert [await future for future in (first, *rest, read)] == ["1", "2", "3", "4", "5", "5"]
    assert harness.memory.appends == [(SHARD, 1, 1), (SHARD, 2, 4)]


async def test_submit_all_returns_each_result() -> None:
    harness = await Harness().opened()
    harness.memory.hold()
    made = harness.shard.submit_all([Put("a", ("1",)), Put("", ()), Get("a"), Put("a", ("2", "3"))])
    await asyncio.sleep(0)
    assert not made.done()
    harness.memory.release()
    first, refused, read, last = await made
    assert (first, read, last, harness.memory.appends) == ("1", "1", "3", [(SHARD, 1, 3)])
    assert isinstance(refused, KafkaError)
    assert refused.code is ErrorCode.INVALID_REQUEST


async def test_submit_all_of_reads_completes_at_once() -> None:
    harness = await Harness().opened()
    assert harness.shard.submit_all([Get("a"), Get("b")]).result() == ["", ""]


async def test_read_waits_for_pending_records() -> None:
    harness = await Harness().opened()
    harness.memory.hold()
    harness.shard.submit(Put("a", ("1",)))
    read = harness.shard.submit(Get("a"))
    await asyncio.sleep(0.01)
    assert not read.done()
    harness.memory.release()
    assert await read == "1"


async def test_read_without_pending_records_completes_at_once() -> None:
    harness = await Harness().opened()
    assert harness.shard.submit(Get("a")).result() == ""


async def test_read_without_pending_records_needs_a_valid_lease() -> None:
    harness = await Harness().opened()
    harness.lease.held = False
    assert await outcome(harness.get("a")) is ErrorCode.NOT_COORDINATOR
    assert await harness.put("a") == "1"  # the log itself checks


async def test_rejection_needs_a_valid_lease() -> None:
    harness = await Harness().opened()
    harness.lease.held = False
    assert await outcome(harness.put("")) is ErrorCode.NOT_COORDINATOR


async def test_large_decision_is_split_and_replies_after_its_last_record() -> None:
    harness = await Harness(group_records=3).opened()
    values = tuple(str(n) for n in range(8))
    assert await harness.put("a", *values) == "7"
    assert harness.memory.appends == [(SHARD, 1, 3), (SHARD, 4, 3), (SHARD, 7, 2)]


@pytest.mark.parametrize("page", [1, 2, 3, 100])
async def test_a_new_owner_replays_everything(page: int) -> None:
    harness = await Harness().opened()
    for n in range(5):
        await harness.put(f"k{n % 3}", str(n))
    await harness.shard.close()
    other = Harness(harness.log, load_page=page)
    await other.opened()
    assert [await other.get(f"k{n}") for n in range(3)] == ["3", "4", "2"]
    other.memory = harness.memory
    await other.put("k0", "9")
    assert harness.memory.appends[-1] == (SHARD, 6, 1)


async def test_completely_trimmed_log_continues_at_its_end() -> None:
    harness = await Harness().opened()
    await harness.put("a", "1", "2")
    await harness.memory.trim(SHARD, 1, 3)
    other = await harness.takeover()
    assert await other.get("a") == ""
    await other.put("b")
    assert harness.memory.appends[-1] == (SHARD, 3, 1)


async def test_commands_are_rejected_by_state() -> None:
    harness = Harness()
    assert await outcome(harness.put("a")) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    harness.shard.open(1)
    assert await outcome(harness.put("a")) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await harness.active()
    assert await outcome(harness.put("a")) == "1"
    await harness.shard.close()
    assert await outcome(harness.put("a")) is ErrorCode.NOT_COORDINATOR


async def test_the_queue_is_bounded() -> None:
    harness = await Harness(queue_limit=4).opened()
    harness.memory.hold()
    first = [harness.shard.submit(Put("a", ("1",))) for _ in range(2)]
    with pytest.raises(KafkaError) as refused:
        harness.shard.submit(Put("a", ("2",)))
    assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert refused.value.retry_after
    harness.memory.release()
    assert [await future for future in first] == ["1", "1"]
    assert await harness.put("a", "2") == "2"


async def test_caller_times_out_although_its_write_may_succeed() -> None:
    harness = await Harness().opened()
    harness.memory.hold()
    patient = asyncio.create_task(harness.put("a", timeout=30))
    await asyncio.sleep(0)
    hasty = asyncio.create_task(harness.put("b", timeout=0.02))
    hastier = asyncio.create_task(harness.put("c", timeout=0.01))
    assert await outcome(hasty) is ErrorCode.REQUEST_TIMED_OUT
    assert await outcome(hastier) is ErrorCode.REQUEST_TIMED_OUT
    assert not patient.done()
    harness.memory.release()
    assert await patient == "1"
    assert await harness.get("b") == "1"
    await harness.shard.close()


async def test_cancelled_caller_is_harmless() -> None:
    harness = await Harness().opened()
    harness.memory.hold()
    gone = asyncio.create_task(harness.put("a"))
    stays = asyncio.create_task(harness.put("b"))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.sleep(0)
    harness.memory.release()
    assert await stays == "1"
    assert await harness.get("a") == "1"


async def test_an_idle_shard_has_no_task() -> None:
    before = asyncio.all_tasks()
    harness = await Harness().opened()
    await harness.put("a")
    await eventually(lambda: asyncio.all_tasks() == before)


async def test_a_record_without_bytes_does_not_reach_memory() -> None:
    harness = await Harness().opened()
    with pytest.raises(UnicodeEncodeError):
        await harness.put("a", "ü")
    assert await harness.get("a") == ""
    assert await harness.put("a", "1") == "1"


async def test_record_that_cannot_be_applied_reloads_the_shard() -> None:
    harness = await Harness().opened()
    await harness.put("a")
    with pytest.raises(RuntimeError, match="poison"):
        await harness.put("poison")
    assert harness.shard.state is ShardState.FAILED
    await harness.active()
    assert await harness.get("a") == "1"
    assert await harness.contents() == ["a=1"]


async def test_record_that_cannot_be_applied_during_an_append() -> None:
    harness = await Harness(trim_records=1).opened()
    harness.memory.hold()
    under_way = harness.shard.submit(Put("a", ("1",)))
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="poison"):
        harness.shard.submit(Put("poison", ("1",)))
    assert await outcome(under_way) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    harness.memory.release()
    await harness.active()
    assert (
        await harness.get("a") == "1"
    )  # the append was in flight: the error is retriable, and the record is stored


async def test_timers_make_records() -> None:
    now = [100.0]
    harness = await Harness(clock=lambda: now[0]).opened()
    await harness.put("at", "100.01")
    await harness.put("x")  # finds the timer set
    assert await harness.get("rung") == ""
    now[0] = 100.5
    await eventually(lambda: len(harness.memory.appends) == 3)
    assert await harness.get("rung") == "100.5"
    assert "rung=100.5" in await harness.contents()


async def test_deadline_waits_for_a_valid_lease() -> None:
    now = [0.0]
    harness = await Harness(clock=lambda: now[0], timer_floor=0.001).opened()
    await harness.put("at", "1")
    harness.lease.held = False
    looks, machine = 0, harness.shard._machine
    next_deadline = machine.next_deadline

    def counted() -> float | None:
        nonlocal looks
        looks += 1
        return next_deadline()

    machine.next_deadline = counted  # type: ignore[method-assign]  # to know that the timer came
    now[0] = 2.0
    harness.shard._on_deadline()
    await eventually(lambda: looks > 2)
    assert await harness.contents() == ["at=1"]
    harness.lease.held = True
    await eventually(lambda: len(harness.memory.appends) == 2)
    assert await harness.contents() == ["at=1", "rung=2.0"]
    await harness.shard.close()


async def test_an_earlier_deadline_moves_the_timer() -> None:
    now = [100.0]
    harness = await Harness(clock=lambda: now[0]).opened()
    await harness.put("at", "5000")
    await harness.put("at", "100.01")
    now[0] = 101.0
    await eventually(lambda: len(harness.memory.appends) == 3)
    await harness.shard.close()


async def test_new_owner_fires_overdue_deadlines() -> None:
    harness = await Harness(clock=lambda: 1.0).opened()
    await harness.put("at", "50")
    await harness.shard.close()
    late = Harness(harness.log, clock=lambda: 60.0)
    await late.opened()
    await eventually(lambda: len(harness.memory.appends) == 2)
    assert await late.get("rung") == "60.0"


async def test_a_timer_waits_while_the_queue_is_full() -> None:
    now = [0.0]
    harness = await Harness(clock=lambda: now[0], queue_limit=2).opened()
    harness.memory.hold()
    first = harness.shard.submit(Put("at", ("0.001",)))
    now[0] = 1.0
    await asyncio.sleep(0.02)
    harness.memory.release()
    assert await first == "0.001"
    await eventually(lambda: len(harness.memory.appends) == 2)
    assert await harness.get("rung") == "1.0"


async def test_no_timer_fires_on_a_closing_shard() -> None:
    now = [0.0]
    harness = await Harness(clock=lambda: now[0], drain_timeout=5.0).opened()
    harness.memory.hold()
    last = harness.shard.submit(Put("at", ("0.001",)))
    closing = asyncio.create_task(harness.shard.close())
    now[0] = 1.0
    await asyncio.sleep(0.02)
    harness.memory.release()
    await closing
    assert await last == "0.001"
    assert await harness.contents() == ["at=0.001"]


async def test_replaced_records_are_trimmed_by_count() -> None:
    harness = await Harness(trim_records=4).opened()
    for n in range(9):
        await harness.put("a", str(n))
    assert len(await harness.contents()) < 5
    other = await harness.takeover()
    assert await other.get("a") == "8"


async def test_replaced_records_are_trimmed_by_age() -> None:
    harness = await Harness(trim_interval=0.0).opened()
    for n in range(3):
        await harness.put("a", str(n))
    assert await harness.contents() == ["a=2"]
    assert harness.shard.trimming.before == 3
    assert (await harness.takeover()).shard.trimming.before == 3


async def test_a_long_log_is_trimmed_soon_after_it_was_loaded() -> None:
    harness = await Harness().opened()
    for n in range(9):
        await harness.put("a", str(n))
    late = Harness(harness.log, trim_records=5)
    await late.opened()
    await late.put("a", "9")
    assert await harness.contents() == ["a=9"]


async def test_trim_waits_until_replacing_records_are_durable() -> None:
    """The machine already calls a=1 replaced; the log does not have the record that replaces it."""
    harness = await Harness(trim_records=1, group_records=1).opened()
    harness.memory.hold()
    both = [harness.shard.submit(Put("a", (value,))) for value in "12"]
    await asyncio.sleep(0)
    trimmed: list[int] = []
    trim = harness.memory.trim

    async def watched(shard: str, epoch: int, before: int) -> None:
        trimmed.append(before)
        assert (await harness.contents())[-1] == "a=2"
        await trim(shard, epoch, before)

    harness.memory.trim = watched  # type: ignore[method-assign]  # looks on
    harness.memory.release()
    assert [await future for future in both] == ["1", "2"]
    await eventually(lambda: trimmed == [2])


async def test_failed_trim_keeps_the_shard_active(logs: Logs) -> None:
    harness = await Harness(trim_records=1).opened()

    async def refuse(shard: str, epoch: int, before: int) -> None:
        raise LogNotWritten("full")

    harness.memory.trim = refuse  # type: ignore[method-assign]  # a fault the twin does not offer
    assert await harness.put("a", "1") == "1"
    assert await harness.put("a", "2") == "2"
    assert {"event": "log not trimmed", "error": "full", "shard": SHARD, "log_level": "warning"} in logs


async def test_a_fenced_trim_closes_the_shard() -> None:
    harness = await Harness(trim_records=1).opened()
    append = harness.memory.append

    async def then_fenced(shard: str, epoch: int, first_position: int, payloads: list[bytes]) -> None:
        await append(shard, epoch, first_position, payloads)
        harness.memory.fence(shard, epoch + 1)

    harness.memory.append = then_fenced  # type: ignore[method-assign,assignment]  # fenced between the two
    assert await harness.put("a") == "1"
    await eventually(lambda: harness.shard.state is ShardState.CLOSED)


async def test_early_timer_is_rearmed() -> None:
    now = [100.0]
    harness = await Harness(clock=lambda: now[0]).opened()
    await harness.put("at", "100.01")
    await harness.put("at", "100.03")
    await asyncio.sleep(0.02)
    assert len(harness.memory.appends) == 2
    now[0] = 101.0
    await eventually(lambda: len(harness.memory.appends) == 3)


async def test_deadline_of_a_completed_caller_is_ignored() -> None:
    harness = await Harness().opened()
    assert await harness.put("a", timeout=0.005) == "1"
    await asyncio.sleep(0.02)
    assert await harness.put("b", timeout=0.5) == "1"


@pytest.mark.parametrize(
    ("failures", "pause"),
    [(0, 0.0), (1, 0.0), (2, 0.05), (3, 0.1), (4, 0.2), (6, 0.8), (7, 1.0), (10_000, 1.0)],
)
def test_pause_before_a_load_doubles_from_the_second_failure_on(failures: int, pause: float) -> None:
    assert RuntimeSettings(backoff_first=0.05, backoff_most=1.0).backoff(failures) == pytest.approx(pause)


async def test_timer_fires_once_at_the_earliest_time() -> None:
    fired: list[float] = []
    loop = asyncio.get_running_loop()
    timer, start = EarliestTimer(lambda: fired.append(loop.time())), loop.time()
    timer.arm(start + 60.0)
    timer.arm(start + 0.01)
    timer.arm(start + 30.0)
    await asyncio.sleep(0.05)
    assert len(fired) == 1
    assert fired[0] >= start + 0.01


async def test_cancelled_timer_does_not_fire_until_it_is_armed_again() -> None:
    fired: list[None] = []
    timer, loop = EarliestTimer(lambda: fired.append(None)), asyncio.get_running_loop()
    timer.arm(loop.time())
    timer.cancel()
    timer.cancel()
    await asyncio.sleep(0.01)
    assert fired == []
    timer.arm(loop.time())
    await asyncio.sleep(0.01)
    assert fired == [None]


def trimming() -> Trimming:
    found = Trimming(RuntimeSettings(trim_records=2, trim_interval=10.0))
    found.loaded(5, 100.0)
    return found


def machine(last: int) -> Ledger:
    ledger = Ledger()
    ledger.apply("a=1", last)
    return ledger


def test_trim_is_due_after_records_or_time() -> None:
    assert trimming().before == 6
    assert trimming().due(machine(6), PendingRecords(6), 109.0) is None
    assert trimming().due(machine(7), PendingRecords(7), 101.0) == 7
    assert trimming().due(machine(6), PendingRecords(6), 110.0) == 6


def test_trim_waits_until_the_planned_records_are_durable() -> None:
    pending, plan = PendingRecords(7), trimming()
    pending.add([b"x"])
    assert plan.due(machine(8), pending, 101.0) is None
    pending.add([b"y"])
    pending.commit(1)
    assert plan.due(machine(9), pending, 101.0) == 8


def test_dropped_deadline_plan_is_rebuilt() -> None:
    pending, plan = PendingRecords(7), trimming()
    pending.add([b"x"])
    assert plan.due(machine(8), pending, 101.0) is None
    plan.forget()
    assert plan.due(machine(7), PendingRecords(7), 101.0) == 7
