"""What clients of librdkafka report about their connections."""

from __future__ import annotations

import json
from typing import Any


class Disconnects:
    """Counts the connections that a client lost: `count`, at most a tenth of a second late."""

    def __init__(self) -> None:
        self.count = 0

    @property
    def settings(self) -> dict[str, Any]:
        """The client's settings; it reports while it is polled."""
        return {"statistics.interval.ms": 100, "stats_cb": self._report}

    def _report(self, statistics: str) -> None:
        brokers: dict[str, dict[str, int]] = json.loads(statistics)["brokers"]
        self.count = sum(broker["disconnects"] for broker in brokers.values())
