"""One shard on a memory log: groups, answers, loading, timers, trimming."""

from __future__ import annotations

import asyncio

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.coordinator_runtime.lifecycle import ShardState
from sharebroker_server.stream_log.port import LogNotWritten
from sharebroker_server.testkit.waiting import eventually
from tests.unit.coordinator_runtime.ledger import SHARD, Get, Put, Rig, outcome


async def test_what_is_answered_is_in_the_log() -> None:
    rig = await Rig().opened()
    assert await rig.put("a", "1") == "1"
    assert await rig.contents() == ["a=1"]
    assert await rig.get("a") == "1"
    await rig.shard.close()


async def test_a_refused_command_writes_nothing() -> None:
    rig = await Rig().opened()
    assert await outcome(rig.put("", "1")) is ErrorCode.INVALID_REQUEST
    assert await rig.contents() == []


async def test_commands_of_one_turn_go_out_in_one_append() -> None:
    rig = await Rig().opened()
    await asyncio.gather(*(rig.put(str(n)) for n in range(10)))
    assert rig.memory.appends == [(SHARD, 1, 10)]


async def test_what_gathers_during_an_append_is_the_next_group() -> None:
    rig = await Rig().opened()
    rig.memory.hold()
    first = rig.shard.submit(Put("a", ("1",)), timeout=5)
    await asyncio.sleep(0)
    rest = [rig.shard.submit(Put("a", (str(n),)), timeout=5) for n in range(2, 6)]
    read = rig.shard.submit(Get("a"), timeout=5)
    await asyncio.sleep(0)
    assert not first.done()
    rig.memory.release()
    assert [await future for future in (first, *rest, read)] == ["1", "2", "3", "4", "5", "5"]
    assert rig.memory.appends == [(SHARD, 1, 1), (SHARD, 2, 4)]


async def test_commands_that_come_together_are_answered_together_each_by_itself() -> None:
    rig = await Rig().opened()
    rig.memory.hold()
    made = rig.shard.submit_all([Put("a", ("1",)), Put("", ()), Get("a"), Put("a", ("2", "3"))], timeout=5)
    await asyncio.sleep(0)
    assert not made.done()
    rig.memory.release()
    first, refused, read, last = await made
    assert (first, read, last, rig.memory.appends) == ("1", "1", "3", [(SHARD, 1, 3)])
    assert isinstance(refused, KafkaError)
    assert refused.code is ErrorCode.INVALID_REQUEST


async def test_what_comes_together_waits_for_nothing_where_nothing_is_written() -> None:
    rig = await Rig().opened()
    assert rig.shard.submit_all([Get("a"), Get("b")], timeout=5).result() == ["", ""]


async def test_a_read_of_what_is_not_yet_durable_waits_for_it() -> None:
    rig = await Rig().opened()
    rig.memory.hold()
    rig.shard.submit(Put("a", ("1",)), timeout=5)
    read = rig.shard.submit(Get("a"), timeout=5)
    await asyncio.sleep(0.01)
    assert not read.done()
    rig.memory.release()
    assert await read == "1"


async def test_a_read_with_nothing_under_way_is_answered_at_once() -> None:
    rig = await Rig().opened()
    assert rig.shard.submit(Get("a"), timeout=5).result() == ""


async def test_a_read_that_no_append_confirms_needs_a_valid_lease() -> None:
    rig = await Rig().opened()
    rig.lease.held = False
    assert await outcome(rig.get("a")) is ErrorCode.NOT_COORDINATOR
    assert await rig.put("a") == "1"  # the log itself checks


async def test_a_refusal_needs_a_valid_lease_too() -> None:
    rig = await Rig().opened()
    rig.lease.held = False
    assert await outcome(rig.put("")) is ErrorCode.NOT_COORDINATOR


async def test_a_large_decision_is_split_and_answered_at_its_end() -> None:
    rig = await Rig(group_records=3).opened()
    values = tuple(str(n) for n in range(8))
    assert await rig.put("a", *values) == "7"
    assert rig.memory.appends == [(SHARD, 1, 3), (SHARD, 4, 3), (SHARD, 7, 2)]


@pytest.mark.parametrize("page", [1, 2, 3, 100])
async def test_a_new_owner_replays_everything(page: int) -> None:
    rig = await Rig().opened()
    for n in range(5):
        await rig.put(f"k{n % 3}", str(n))
    await rig.shard.close()
    other = Rig(rig.log, load_page=page)
    await other.opened()
    assert [await other.get(f"k{n}") for n in range(3)] == ["3", "4", "2"]
    other.memory = rig.memory
    await other.put("k0", "9")
    assert rig.memory.appends[-1] == (SHARD, 6, 1)


async def test_a_log_that_was_trimmed_to_nothing_goes_on_at_its_end() -> None:
    rig = await Rig().opened()
    await rig.put("a", "1", "2")
    await rig.memory.trim(SHARD, 1, 3)
    other = await rig.takeover()
    assert await other.get("a") == ""
    await other.put("b")
    assert rig.memory.appends[-1] == (SHARD, 3, 1)


async def test_in_which_state_who_gets_what() -> None:
    rig = Rig()
    assert await outcome(rig.put("a")) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    rig.shard.open(1)
    assert await outcome(rig.put("a")) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await rig.active()
    assert await outcome(rig.put("a")) == "1"
    await rig.shard.close()
    assert await outcome(rig.put("a")) is ErrorCode.NOT_COORDINATOR


async def test_the_queue_is_bounded() -> None:
    rig = await Rig(queue_limit=4).opened()
    rig.memory.hold()
    first = [rig.shard.submit(Put("a", ("1",)), timeout=5) for _ in range(2)]
    with pytest.raises(KafkaError) as refused:
        rig.shard.submit(Put("a", ("2",)), timeout=5)
    assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert refused.value.retry_after
    rig.memory.release()
    assert [await future for future in first] == ["1", "1"]
    assert await rig.put("a", "2") == "2"


async def test_a_caller_is_refused_at_its_deadline_though_the_write_may_come() -> None:
    rig = await Rig().opened()
    rig.memory.hold()
    patient = asyncio.create_task(rig.put("a", timeout=30))
    await asyncio.sleep(0)
    hasty = asyncio.create_task(rig.put("b", timeout=0.02))
    hastier = asyncio.create_task(rig.put("c", timeout=0.01))
    assert await outcome(hasty) is ErrorCode.REQUEST_TIMED_OUT
    assert await outcome(hastier) is ErrorCode.REQUEST_TIMED_OUT
    assert not patient.done()
    rig.memory.release()
    assert await patient == "1"
    assert await rig.get("b") == "1"
    await rig.shard.close()


async def test_a_caller_that_went_away_harms_nobody() -> None:
    rig = await Rig().opened()
    rig.memory.hold()
    gone = asyncio.create_task(rig.put("a"))
    stays = asyncio.create_task(rig.put("b"))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.sleep(0)
    rig.memory.release()
    assert await stays == "1"
    assert await rig.get("a") == "1"


async def test_an_idle_shard_has_no_task() -> None:
    before = asyncio.all_tasks()
    rig = await Rig().opened()
    await rig.put("a")
    await eventually(lambda: asyncio.all_tasks() == before)


async def test_a_record_without_bytes_does_not_reach_memory() -> None:
    rig = await Rig().opened()
    with pytest.raises(UnicodeEncodeError):
        await rig.put("a", "ü")
    assert await rig.get("a") == ""
    assert await rig.put("a", "1") == "1"


async def test_a_record_that_cannot_be_applied_costs_the_memory_not_the_log() -> None:
    rig = await Rig().opened()
    await rig.put("a")
    with pytest.raises(RuntimeError, match="poison"):
        await rig.put("poison")
    assert rig.shard.state is ShardState.FAILED
    await rig.active()
    assert await rig.get("a") == "1"
    assert await rig.contents() == ["a=1"]


async def test_the_same_during_an_append() -> None:
    rig = await Rig(trim_records=1).opened()
    rig.memory.hold()
    under_way = rig.shard.submit(Put("a", ("1",)), timeout=5)
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="poison"):
        rig.shard.submit(Put("poison", ("1",)), timeout=5)
    assert await outcome(under_way) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    rig.memory.release()
    await rig.active()
    assert await rig.get("a") == "1"  # it was under way: retriable, and it came


async def test_timers_make_records() -> None:
    now = [100.0]
    rig = await Rig(clock=lambda: now[0]).opened()
    await rig.put("at", "100.01")
    await rig.put("x")  # finds the timer set
    assert await rig.get("rung") == ""
    now[0] = 100.5
    await eventually(lambda: len(rig.memory.appends) == 3)
    assert await rig.get("rung") == "100.5"
    assert "rung=100.5" in await rig.contents()


async def test_what_is_due_waits_for_a_valid_lease() -> None:
    now = [0.0]
    rig = await Rig(clock=lambda: now[0], timer_floor=0.001).opened()
    await rig.put("at", "1")
    rig.lease.held = False
    looks, machine = 0, rig.shard._machine
    next_deadline = machine.next_deadline

    def counted() -> float | None:
        nonlocal looks
        looks += 1
        return next_deadline()

    machine.next_deadline = counted  # type: ignore[method-assign]  # to know that the timer came
    now[0] = 2.0
    rig.shard._on_deadline()
    await eventually(lambda: looks > 2)
    assert await rig.contents() == ["at=1"]
    rig.lease.held = True
    await eventually(lambda: len(rig.memory.appends) == 2)
    assert await rig.contents() == ["at=1", "rung=2.0"]
    await rig.shard.close()


async def test_an_earlier_deadline_moves_the_timer() -> None:
    now = [100.0]
    rig = await Rig(clock=lambda: now[0]).opened()
    await rig.put("at", "5000")
    await rig.put("at", "100.01")
    now[0] = 101.0
    await eventually(lambda: len(rig.memory.appends) == 3)
    await rig.shard.close()


async def test_a_new_owner_does_what_was_due() -> None:
    rig = await Rig(clock=lambda: 1.0).opened()
    await rig.put("at", "50")
    await rig.shard.close()
    late = Rig(rig.log, clock=lambda: 60.0)
    await late.opened()
    await eventually(lambda: len(rig.memory.appends) == 2)
    assert await late.get("rung") == "60.0"


async def test_a_timer_waits_while_the_queue_is_full() -> None:
    now = [0.0]
    rig = await Rig(clock=lambda: now[0], queue_limit=2).opened()
    rig.memory.hold()
    first = rig.shard.submit(Put("at", ("0.001",)), timeout=5)
    now[0] = 1.0
    await asyncio.sleep(0.02)
    rig.memory.release()
    assert await first == "0.001"
    await eventually(lambda: len(rig.memory.appends) == 2)
    assert await rig.get("rung") == "1.0"


async def test_no_timer_fires_on_a_closing_shard() -> None:
    now = [0.0]
    rig = await Rig(clock=lambda: now[0], drain_timeout=5.0).opened()
    rig.memory.hold()
    last = rig.shard.submit(Put("at", ("0.001",)), timeout=5)
    closing = asyncio.create_task(rig.shard.close())
    now[0] = 1.0
    await asyncio.sleep(0.02)
    rig.memory.release()
    await closing
    assert await last == "0.001"
    assert await rig.contents() == ["at=0.001"]


async def test_replaced_records_are_trimmed_after_so_many() -> None:
    rig = await Rig(trim_records=4).opened()
    for n in range(9):
        await rig.put("a", str(n))
    assert len(await rig.contents()) < 5
    other = await rig.takeover()
    assert await other.get("a") == "8"


async def test_replaced_records_are_trimmed_after_so_long() -> None:
    rig = await Rig(trim_interval=0.0).opened()
    for n in range(3):
        await rig.put("a", str(n))
    assert await rig.contents() == ["a=2"]
    assert rig.shard.trimming.before == 3
    assert (await rig.takeover()).shard.trimming.before == 3


async def test_a_long_log_is_trimmed_soon_after_it_was_loaded() -> None:
    rig = await Rig().opened()
    for n in range(9):
        await rig.put("a", str(n))
    late = Rig(rig.log, trim_records=5)
    await late.opened()
    await late.put("a", "9")
    assert await rig.contents() == ["a=9"]


async def test_nothing_is_trimmed_on_account_of_what_is_not_durable() -> None:
    """The machine already calls a=1 replaced; the log does not have the record that replaces it."""
    rig = await Rig(trim_records=1, group_records=1).opened()
    rig.memory.hold()
    both = [rig.shard.submit(Put("a", (value,)), timeout=5) for value in "12"]
    await asyncio.sleep(0)
    trimmed: list[int] = []
    trim = rig.memory.trim

    async def watched(shard: str, epoch: int, before: int) -> None:
        trimmed.append(before)
        assert (await rig.contents())[-1] == "a=2"
        await trim(shard, epoch, before)

    rig.memory.trim = watched  # type: ignore[method-assign]  # looks on
    rig.memory.release()
    assert [await future for future in both] == ["1", "2"]
    await eventually(lambda: trimmed == [2])


async def test_a_failed_trim_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    rig = await Rig(trim_records=1).opened()

    async def refuse(shard: str, epoch: int, before: int) -> None:
        raise LogNotWritten("full")

    rig.memory.trim = refuse  # type: ignore[method-assign]  # a fault the twin does not offer
    assert await rig.put("a", "1") == "1"
    assert await rig.put("a", "2") == "2"
    assert "not trimmed: full" in caplog.text


async def test_a_fenced_trim_closes_the_shard() -> None:
    rig = await Rig(trim_records=1).opened()
    append = rig.memory.append

    async def then_fenced(shard: str, epoch: int, first_position: int, payloads: list[bytes]) -> None:
        await append(shard, epoch, first_position, payloads)
        rig.memory.fence(shard, epoch + 1)

    rig.memory.append = then_fenced  # type: ignore[method-assign,assignment]  # fenced between the two
    assert await rig.put("a") == "1"
    await eventually(lambda: rig.shard.state is ShardState.CLOSED)


async def test_a_timer_that_comes_too_early_is_set_again() -> None:
    now = [100.0]
    rig = await Rig(clock=lambda: now[0]).opened()
    await rig.put("at", "100.01")
    await rig.put("at", "100.03")
    await asyncio.sleep(0.02)
    assert len(rig.memory.appends) == 2
    now[0] = 101.0
    await eventually(lambda: len(rig.memory.appends) == 3)


async def test_deadlines_of_callers_who_were_answered_pass_unnoticed() -> None:
    rig = await Rig().opened()
    assert await rig.put("a", timeout=0.005) == "1"
    await asyncio.sleep(0.02)
    assert await rig.put("b", timeout=0.5) == "1"
