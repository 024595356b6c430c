"""The checks after a restart of Redis."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from structlog.testing import capture_logs

from sharebroker_server.broker.state_verifier import StateVerifier
from sharebroker_server.stream_log.port import LogUnavailable
from tests.testkit.waiting import eventually


async def test_checks_run_after_a_change_and_are_retried_until_redis_responds() -> None:
    link = SimpleNamespace(on_new_server=[])
    attempts: list[str] = []

    async def check() -> None:
        attempts.append("check")
        if len(attempts) == 1:
            raise LogUnavailable("not yet")

    verifier = StateVerifier([cast("Any", link)], [check])
    assert not attempts
    with capture_logs() as lines:
        for callback in link.on_new_server:
            callback()
    await eventually(lambda: len(attempts) == 2)
    await verifier.stop()
    assert [line["event"] for line in lines] == [
        "Redis restarted or failed over; verifying in-memory state against it"
    ]
