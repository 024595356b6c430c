"""The commands of paused groups, on a server whose circuit breaker pauses them."""

from __future__ import annotations

from tests.integration.client.cli.commands import create_group, taken
from tests.integration.client.cli.conftest import Command
from tests.testkit.waiting import until


def test_a_group_whose_records_fail_is_paused_until_it_is_resumed(
    server: str, sharebroker: Command, topic: str, group: str
) -> None:
    create_group(server, topic, group)
    limits = ("--set", "share.breaker.failed.percent=50", "--set", "share.breaker.min.records=5")
    assert sharebroker("groups", "config", group, *limits).code == 0
    assert sharebroker("produce", topic, stdin=b"record\n" * 1000).code == 0

    def paused() -> str:
        """Rejects more records, and returns why the group is paused."""
        consume("--reject")
        described = sharebroker("groups", "describe", group, "--json").data
        return str(described.get("paused", ""))

    def consume(response: str) -> str:
        """Returns up to five records, one a line."""
        options = ("--max", "5", "--timeout", "0.5", "--json", response)
        return sharebroker("consume", topic, "-g", group, *options).out

    until(paused)
    assert paused().endswith("records failed within 60 s; share.breaker.failed.percent is 50.")
    assert consume("--accept") == ""
    assert sharebroker("groups", "resume", group).err == f"Resumed group {group}.\n"
    assert "paused" not in sharebroker("groups", "describe", group, "--json").data
    taken(sharebroker, topic, group, 8, "--accept")
