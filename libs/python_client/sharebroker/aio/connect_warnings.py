"""Rate-limited warnings about failed connection attempts."""

from __future__ import annotations

import logging
from typing import Final

from sharebroker_protocol.errors import KafkaError

WARN_AFTER: Final = 5.0
"""Seconds; longer than a restart of the server takes."""
WARN_INTERVAL: Final = 60.0
"""Seconds."""
_log = logging.getLogger(__name__)


class ConnectWarnings:
    """Decides when consecutive failed attempts are logged.

    The first warning is logged `WARN_AFTER` seconds after the first failure, then one every `WARN_INTERVAL`.
    """

    def __init__(self) -> None:
        self._due: float | None = None

    def succeeded(self) -> None:
        """Ends the sequence of failures."""
        self._due = None

    def failed(self, error: KafkaError, now: float) -> None:
        """Counts a failure at `now` (seconds, monotonic) and logs it if a warning is due."""
        if self._due is None:
            self._due = now + WARN_AFTER
        elif now >= self._due:
            self._due = now + WARN_INTERVAL
            _log.warning("consumer cannot connect and retries: %s", error)
