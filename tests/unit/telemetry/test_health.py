from __future__ import annotations

from sharebroker_server.telemetry.health import INCOMPLETE_GRACE, Health, page


class Clock:
    """A clock set by the test."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def test_a_starting_broker_is_only_live() -> None:
    health = Health()
    assert await health.is_live() == ""
    assert await health.is_started() == await health.is_ready() == "the broker is starting"
    health.started()
    assert await health.is_started() == await health.is_ready() == ""


async def test_a_stopping_broker_is_not_ready() -> None:
    health = Health()
    health.started()
    health.stop()
    assert await health.is_ready() == "the broker is stopping"
    assert await health.is_started() == await health.is_live() == ""


async def test_a_failed_check_makes_the_broker_not_ready() -> None:
    health, reasons = Health(), ["no Redis"]

    async def check() -> str:
        return reasons[0]

    health.started()
    health.checks.append(check)
    assert await health.is_ready() == "no Redis"
    reasons[0] = ""
    assert await health.is_ready() == ""


async def test_at_first_all_must_be_there_and_later_it_may_take_a_while() -> None:
    clock, missing = Clock(), ["a", "b", "c", "d"]
    health = Health(clock)
    health.started()
    health.missing.append(lambda: missing)
    assert await health.is_ready() == "4 resources of this broker are not available yet: a, b, c"
    missing.clear()
    assert await health.is_ready() == ""
    missing.append("e")
    clock.now += INCOMPLETE_GRACE - 1
    assert await health.is_ready() == ""
    clock.now += 1
    assert await health.is_ready() == "1 resources of this broker are not available yet: e"


async def test_health_pages_return_ok_or_the_reason() -> None:
    health = Health()
    assert await page(health.is_live)() == (200, b"ok\n", "text/plain; charset=utf-8")
    assert (await page(health.is_ready)())[:2] == (503, b"the broker is starting\n")
