"""When the log of a shard is trimmed, and up to where."""

from __future__ import annotations

from sharebroker_server.coordinator_runtime.pending import Pending
from sharebroker_server.coordinator_runtime.settings import RuntimeSettings
from sharebroker_server.coordinator_runtime.trimming import Trimming
from tests.unit.coordinator_runtime.harness import Ledger


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
    assert trimming().due(machine(6), Pending(6), 109.0) is None
    assert trimming().due(machine(7), Pending(7), 101.0) == 7
    assert trimming().due(machine(6), Pending(6), 110.0) == 6


def test_trim_waits_for_the_records_that_were_applied_when_it_was_planned() -> None:
    pending, plan = Pending(7), trimming()
    pending.add([b"x"])
    assert plan.due(machine(8), pending, 101.0) is None
    pending.add([b"y"])
    pending.commit(1)
    assert plan.due(machine(9), pending, 101.0) == 8


def test_forgotten_plan_is_made_again() -> None:
    pending, plan = Pending(7), trimming()
    pending.add([b"x"])
    assert plan.due(machine(8), pending, 101.0) is None
    plan.forget()
    assert plan.due(machine(7), Pending(7), 101.0) == 7
