"""Pending records, replies and effects of a shard."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.coordinator_runtime.machine import Effect
from sharebroker_server.coordinator_runtime.pending import (
    PendingRecords,
    Waiter,
    no_effects,
    perform_all,
    reject,
)
from tests.unit.coordinator_runtime.harness import IntendedEffect


class Noted(Effect):
    pass


def waiting(pending: PendingRecords, position: int, deadline: float = 1.0) -> asyncio.Future[Any]:
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    pending.wait(Waiter(position, deadline, f"reply at {position}", future, writes=True))
    return future


@pytest.mark.parametrize(
    ("sizes", "records", "size", "groups"),
    [
        ([1], 10, 100, [1]),
        ([1, 1, 1], 10, 100, [3]),
        ([1, 1, 1], 2, 100, [2, 1]),
        ([1, 1, 1], 1, 100, [1, 1, 1]),
        ([40, 40, 40], 10, 100, [2, 1]),
        ([40, 60, 40], 10, 100, [2, 1]),
        ([40, 61, 40], 10, 100, [1, 1, 1]),
        ([500, 1], 10, 100, [1, 1]),
        ([1, 500, 1], 10, 100, [1, 1, 1]),
    ],
)
async def test_groups_are_bounded_and_never_empty(
    sizes: list[int], records: int, size: int, groups: list[int]
) -> None:
    pending = PendingRecords(7)
    pending.add([bytes(n) for n in sizes])
    cut = []
    while pending.durable < pending.applied:
        group = pending.cut(records, size)
        cut.append(len(group))
        pending.commit(len(group))
    assert cut == groups
    assert pending.durable == 7 + len(sizes)


async def test_callers_receive_replies_once_their_position_is_durable() -> None:
    pending = PendingRecords(10)
    pending.add([b"a", b"b", b"c"])
    first, last = waiting(pending, 11), waiting(pending, 13)
    gone = waiting(pending, 13)
    gone.cancel()
    assert len(pending) == 6
    pending.commit(2)
    assert (first.result(), last.done()) == ("reply at 11", False)
    pending.commit(1)
    assert last.result() == "reply at 13"
    assert len(pending) == 0


async def test_expired_waiters_are_rejected_and_next_deadline_returned() -> None:
    pending = PendingRecords(0)
    pending.add([b"a"])
    soon, later = waiting(pending, 1, 1.0), waiting(pending, 1, 3.0)
    assert pending.expire(0.5) == 1.0
    assert pending.expire(1.0) == 3.0
    with pytest.raises(KafkaError) as refused:
        soon.result()
    assert refused.value.code is ErrorCode.REQUEST_TIMED_OUT
    pending.commit(1)
    assert later.result() == "reply at 1"
    assert pending.expire(9.0) is None


async def test_abandon_rejects_all_waiters_and_drops_effects() -> None:
    pending = PendingRecords(0)
    pending.add([b"a"])
    future = waiting(pending, 1)
    pending.add_effects([Noted()])
    pending.abandon(ErrorCode.NOT_COORDINATOR, "why")
    with pytest.raises(KafkaError, match="why"):
        future.result()
    assert (len(pending), pending.applied) == (0, 0)
    pending.add([b"b"])
    assert pending.commit(1) == []


async def test_effects_are_returned_once_their_position_is_durable() -> None:
    pending, (first, second) = PendingRecords(0), (Noted(), Noted())
    pending.add([b"a"])
    pending.add_effects([first])
    pending.add([b"b"])
    pending.add_effects([second])
    assert pending.commit(1) == [first]
    assert pending.commit(1) == [second]


async def test_error_reply_is_raised() -> None:
    pending = PendingRecords(0)
    pending.add([b"a"])
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    pending.wait(Waiter(1, 1.0, KafkaError(ErrorCode.REBALANCE_IN_PROGRESS), future, writes=False))
    pending.commit(1)
    with pytest.raises(KafkaError) as rejected:
        future.result()
    assert rejected.value.code is ErrorCode.REBALANCE_IN_PROGRESS


async def test_completed_caller_is_not_rejected() -> None:
    future = asyncio.get_running_loop().create_future()
    future.set_result("yes")
    reject(future, KafkaError(ErrorCode.REQUEST_TIMED_OUT))
    assert future.result() == "yes"


def test_failed_effect_is_logged_and_the_next_one_performed(logs: list[MutableMapping[str, Any]]) -> None:
    performed: list[Effect] = []

    def perform(effect: Effect) -> None:
        performed.append(effect)
        if effect == IntendedEffect("a"):
            raise RuntimeError("on demand")

    perform_all(perform, [IntendedEffect("a"), IntendedEffect("b")], "shard:1")
    assert performed == [IntendedEffect("a"), IntendedEffect("b")]
    assert [(entry["event"], entry["shard"]) for entry in logs] == [("effect failed", "shard:1")]


def test_effect_without_performer_is_an_error() -> None:
    with pytest.raises(TypeError, match="IntendedEffect"):
        no_effects(IntendedEffect("a"))
