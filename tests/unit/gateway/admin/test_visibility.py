"""The wait for a change ends at its limit, and a failure of the wait is no failure of the change."""

from __future__ import annotations

import pytest

from sharebroker_protocol.clock import Deadline
from sharebroker_server.gateway.admin.visibility import await_visible
from tests.unit.gateway.conftest import Harness


@pytest.mark.parametrize("visible", [True, False])
async def test_the_wait_ends_when_visible_or_at_its_deadline(harness: Harness, visible: bool) -> None:
    seen = []

    def done(catalog: object) -> bool:
        seen.append(catalog)
        return visible

    await await_visible(harness.gateway, done, Deadline(0.01))
    assert seen
