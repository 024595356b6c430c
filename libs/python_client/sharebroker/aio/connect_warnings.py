"""Telling that nothing gets through, without a word too many."""

from __future__ import annotations

import logging
from typing import Final

from sharebroker_protocol.errors import KafkaError

PATIENCE: Final = 5.0
"""Seconds; a server that is restarted is back by then."""
EVERY: Final = 60.0
log = logging.getLogger("sharebroker")


class Trouble:
    """Attempts that fail, one after the other."""

    def __init__(self) -> None:
        self._due: float | None = None

    def over(self) -> None:
        """Something got through."""
        self._due = None

    def failed(self, error: KafkaError, now: float) -> None:
        """An attempt failed; warns of it where that has been so for a while."""
        if self._due is None:
            self._due = now + PATIENCE
        elif now >= self._due:
            self._due = now + EVERY
            log.warning("The consumer waits and tries again: %s", error)
