"""How far from now the times may be that producers give to records."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.record_log.core.batch import BatchHeader

_NO_TIME: Final = -1
_EVER: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Times:
    """message.timestamp.before.max.ms and message.timestamp.after.max.ms."""

    before_max_ms: int = _EVER
    after_max_ms: int = 3_600_000

    def check(self, headers: Iterable[BatchHeader], now_ms: int) -> None:
        """Raises INVALID_TIMESTAMP.

        A batch is not opened: of its records the first and the newest are known.
        """
        for header in headers:
            for time in (header.base_timestamp, header.max_timestamp):
                if time != _NO_TIME and not -self.before_max_ms <= time - now_ms <= self.after_max_ms:
                    raise KafkaError(
                        ErrorCode.INVALID_TIMESTAMP,
                        f"A record's time is {time}, now it is {now_ms}: {self.before_max_ms} ms before and "
                        f"{self.after_max_ms} ms after are allowed.",
                    )
