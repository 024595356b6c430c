"""Limits the distance of a record's timestamp from the current time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.record_log.core.batch import BatchHeader

_NO_TIMESTAMP: Final = -1
_UNLIMITED: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class TimestampBounds:
    """message.timestamp.before.max.ms and message.timestamp.after.max.ms."""

    before_max_ms: int = _UNLIMITED
    after_max_ms: int = 3_600_000

    def check(self, headers: Iterable[BatchHeader], now_ms: int) -> None:
        """Raises INVALID_TIMESTAMP if a timestamp is out of bounds.

        Batches are not unpacked: only the first and the newest timestamp of each are checked.
        """
        for header in headers:
            for time in (header.base_timestamp, header.max_timestamp):
                if time != _NO_TIMESTAMP and not -self.before_max_ms <= time - now_ms <= self.after_max_ms:
                    raise KafkaError(
                        ErrorCode.INVALID_TIMESTAMP,
                        f"The timestamp {time} is out of bounds: it may be at most {self.before_max_ms} "
                        "ms before "
                        f"and {self.after_max_ms} ms after the current time {now_ms}.",
                    )
