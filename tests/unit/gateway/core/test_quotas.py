"""The most specific quota applies, and a client that waits when it must uses its rate."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharebroker_server.gateway.core import quotas as module
from sharebroker_server.gateway.core.quotas import LONGEST_THROTTLE, Applied, Parts, QuotaUse, applied

BOTH, USER, CLIENT = ("alice", "c"), ("alice", None), (None, "c")

PRECEDENCE: list[tuple[Parts, Parts]] = [
    (("alice", "c"), BOTH),
    (("alice", ""), BOTH),
    (("alice", None), USER),
    (("", "c"), BOTH),
    (("", ""), BOTH),
    (("", None), USER),
    ((None, "c"), CLIENT),
    ((None, ""), CLIENT),
]
"""The quotas of a client from the most specific one on, and the bucket of each."""


@pytest.mark.parametrize("first", range(len(PRECEDENCE)))
def test_the_most_specific_quota_applies(first: int) -> None:
    quotas = {parts: float(number) for number, (parts, _) in enumerate(PRECEDENCE) if number >= first}
    assert applied(quotas, "alice", "c") == Applied(float(first), PRECEDENCE[first][1])


def test_quotas_of_others_do_not_apply() -> None:
    assert applied({("bob", None): 1.0, (None, "d"): 1.0, ("bob", "c"): 1.0}, "alice", "c") is None


def use(quotas: dict[Parts, float], burst: float = 10.0, limit: int = 100) -> QuotaUse:
    made = QuotaUse(burst, limit)
    made.replace(quotas)
    return made


def test_without_quotas_no_client_waits() -> None:
    nothing = use({})
    assert not nothing
    assert nothing.charge("alice", "c", 1e9, 0.0) == 0.0


def test_a_client_waits_until_its_debt_is_paid() -> None:
    charged = use({USER: 100.0})
    assert charged
    assert charged.charge("alice", "c", 1000, 0.0) == 0.0, "ten seconds of the rate at once"
    assert charged.charge("alice", "d", 50, 0.0) == pytest.approx(0.5), "all client ids share the quota"
    assert charged.charge("alice", "c", 0, 0.5) == 0.0
    assert charged.charge("alice", "c", 1e9, 1.0) == LONGEST_THROTTLE


def test_a_quota_by_client_id_has_a_bucket_per_client_id() -> None:
    charged = use({("", ""): 1.0}, burst=1.0)
    assert charged.charge("alice", "c", 3, 0.0) == pytest.approx(2.0)
    assert charged.charge("alice", "d", 1, 0.0) == 0.0
    assert charged.charge("bob", "c", 1, 0.0) == 0.0


def test_a_changed_quota_is_effective_at_once() -> None:
    charged = use({USER: 1.0}, burst=1.0)
    assert charged.charge("alice", "c", 101, 0.0) == pytest.approx(100.0)
    charged.replace({USER: 100.0})
    assert charged.charge("alice", "c", 0, 0.0) == pytest.approx(1.0)
    charged.replace({})
    charged.replace({USER: 100.0})
    assert charged.charge("alice", "c", 0, 0.0) == 0.0


def test_the_least_recently_charged_client_is_dropped() -> None:
    charged = use({("", None): 1.0}, burst=1.0, limit=2)
    for user in ("alice", "bob", "alice", "carol"):
        charged.charge(user, "c", 10, 0.0)
    assert charged.charge("alice", "c", 0, 0.0) > 0
    assert charged.charge("bob", "c", 0, 0.0) == 0.0


def test_the_cache_of_quotas_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CACHED", 2)
    charged = use({USER: 1.0})
    for client in "abcde":
        charged.charge("alice", client, 0, 0.0)
        assert len(charged._cached) <= 2


@given(
    st.lists(st.tuples(st.floats(0, 1e4), st.floats(0, 20), st.sampled_from("ab")), max_size=50),
    st.floats(0.5, 1e4),
)
def test_clients_that_wait_use_their_rate_and_do_not_affect_each_other(
    steps: list[tuple[float, float, str]], rate: float
) -> None:
    burst = 5.0
    together, alone = use({("", None): rate}, burst), use({("", None): rate}, burst)
    now, used, may_send = 0.0, 0.0, 0.0
    for amount, pause, user in steps:
        now += pause
        if user == "b":
            together.charge("b", "c", amount, now)
            continue
        if now < may_send:  # a client that is muted sends nothing
            continue
        assert used <= rate * (now + burst) * (1 + 1e-9) + 1e-6
        wait = together.charge("a", "c", amount, now)
        assert wait == alone.charge("a", "c", amount, now)
        used += amount
        may_send = now + wait
        if used <= rate * burst:
            assert wait == 0.0
