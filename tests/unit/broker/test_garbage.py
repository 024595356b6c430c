"""When the survivors of full garbage collections are frozen, and when all objects are visited again."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharebroker_server.broker import garbage
from sharebroker_server.broker.garbage import (
    LONG,
    MIN_VISITS,
    CollectionObserver,
    FreezeRule,
    Survivors,
    shorten_collections,
)

STAY, FREEZE, UNFREEZE = Survivors


@pytest.mark.parametrize(
    ("seconds", "decided"),
    [
        pytest.param([LONG / 2, LONG], [STAY, STAY], id="short"),
        pytest.param([0.3, LONG / 2, 0.1], [FREEZE, STAY, FREEZE], id="long"),
        pytest.param([0.3, 0.3, 0.6], [FREEZE, UNFREEZE, FREEZE], id="more than the limit"),
        pytest.param([0.6, 0.01, 0.3], [UNFREEZE, FREEZE, FREEZE], id="most objects were garbage"),
        pytest.param([0.6, 2.0, 0.9, 0.9, 0.9], [UNFREEZE, FREEZE, FREEZE, FREEZE, UNFREEZE], id="grown"),
    ],
)
def test_survivors(seconds: list[float], decided: list[Survivors]) -> None:
    rule = FreezeRule()
    assert [rule.after(each) for each in seconds] == decided


@given(st.lists(st.floats(0, 3), max_size=60))
def test_frozen_objects_are_bounded(collections: list[float]) -> None:
    """Each second frozen could be garbage: there is never more than was visited last, or the minimum."""
    rule, frozen, alive, visits_all = FreezeRule(), 0.0, 0.0, False
    for seconds in collections:
        decided = rule.after(seconds)
        if visits_all:
            frozen, alive = 0.0, seconds
            assert decided is FREEZE
        elif decided is FREEZE:
            frozen += seconds
        visits_all = decided is UNFREEZE
        assert frozen <= max(MIN_VISITS, alive)


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The calls of a garbage collector that collects nothing."""
    calls: list[str] = []
    names = ("collect", "freeze", "unfreeze")
    fake = SimpleNamespace(
        callbacks=[],
        set_threshold=lambda *numbers: calls.append(str(numbers)),
        **{name: lambda name=name: calls.append(name) for name in names},
    )
    monkeypatch.setattr(garbage, "gc", fake)
    shorten_collections()
    assert calls == ["collect", "freeze", "(50000, 0, 1)"]
    (observer,) = fake.callbacks
    assert isinstance(observer, CollectionObserver)
    calls.clear()

    times = iter([0.0, 0.01, 1.0, 1.3, 2.0, 2.3, 3.0, 3.4])
    monkeypatch.setattr(garbage, "time", SimpleNamespace(thread_time=lambda: next(times)))
    for generation in (0, 2, 1, 2, 2, 2):
        for phase in ("start", "stop"):
            observer(phase, {"generation": generation})
    return calls


def test_full_collections_are_measured(collector: list[str]) -> None:
    assert collector == ["freeze", "unfreeze", "freeze"]
