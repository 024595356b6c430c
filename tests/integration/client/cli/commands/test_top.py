"""`sharebroker top` on a running server."""

from __future__ import annotations

import json

from tests.integration.client.cli.commands.commands import create_group
from tests.integration.client.cli.commands.conftest import Command


def test_two_views_have_rates_lags_and_log_ends(
    server: str, sharebroker: Command, topic: str, group: str
) -> None:
    create_group(server, topic, group)
    assert sharebroker("produce", topic, stdin=b"record\n" * 7).code == 0
    ran = sharebroker("top", "--count", "2", "--interval", "0.5", "--json")
    assert ran.code == 0, ran
    first, second = (json.loads(line) for line in ran.out.splitlines())
    for view, rate in ((first, None), (second, 0.0)):
        (shown,) = (row for row in view["groups"] if row["group"] == group)
        assert (shown["lag"], shown["members"], shown["finished_per_s"]) == (7, 0, rate)
        (log,) = (row for row in view["topics"] if row["topic"] == topic)
        assert (log["partitions"], log["end_offsets"], log["published_per_s"]) == (2, 7, rate)
    rendered = sharebroker("top", "--count", "1")
    assert rendered.code == 0
    assert "PUBLISHED/S" in rendered.out
