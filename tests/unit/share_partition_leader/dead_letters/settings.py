"""Settings of dead letters for tests."""

from __future__ import annotations

from sharebroker_server.share_partition_leader.dead_letters.target import DeadLetterTarget, DeadLetterTopic


class DisabledLetters:
    """Settings under which no group has a dead letter topic."""

    auto_create: bool = False
    prefix: str = ""

    def target(self, group_id: str) -> DeadLetterTarget:
        """Returns settings without a topic."""
        return DeadLetterTarget("")

    def topic(self, name: str) -> DeadLetterTopic | None:
        """Returns no topic."""
        return None

    async def create(self, name: str) -> None:
        """Creates nothing."""
