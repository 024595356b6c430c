"""The initial start offset of a share group: the values of `share.auto.offset.reset`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from sharebroker_server.config.keys import invalid

Strategy = Literal["earliest", "latest", "by_duration"]

_NAME: Final = "share.auto.offset.reset"
_PREFIX: Final = "by_duration:"
# The syntax of java.time.Duration.parse: days to seconds, each with its own sign, and a leading sign.
_DURATION: Final = re.compile(
    r"([-+]?)P(?:([-+]?\d+)D)?(T(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?\d+)(?:[.,](\d{0,9}))?S)?)?",
    re.IGNORECASE | re.ASCII,
)
_NANOS: Final = (86_400 * 10**9, 3600 * 10**9, 60 * 10**9, 10**9)


@dataclass(frozen=True, slots=True)
class OffsetReset:
    """A reset policy; `duration_ms` applies to `by_duration` only."""

    strategy: Strategy
    duration_ms: int = 0

    @staticmethod
    def parse(value: str) -> OffsetReset:
        """Parses `earliest`, `latest` or `by_duration:<ISO-8601>`. Raises INVALID_CONFIG."""
        if value == "earliest":
            return OffsetReset("earliest")
        if value == "latest":
            return OffsetReset("latest")
        if value.startswith(_PREFIX):
            millis = duration_ms(value.removeprefix(_PREFIX))
            if millis is not None and millis >= 0:
                return OffsetReset("by_duration", millis)
        raise invalid(
            _NAME,
            f"Invalid value {value!r} for {_NAME}: expected latest, earliest, or by_duration: followed by "
            "an ISO-8601 duration PnDTnHnMn.nS that is not negative.",
        )


def duration_ms(text: str) -> int | None:
    """Returns the milliseconds of an ISO-8601 duration, rounded down; None if the text is invalid."""
    match = _DURATION.fullmatch(text)
    if match is None or match[3] in ("T", "t"):
        return None
    counts = (match[2], match[4], match[5], match[6])
    if not any(counts):
        return None
    nanos = sum(int(count) * unit for count, unit in zip(counts, _NANOS, strict=True) if count)
    fraction = int((match[7] or "").ljust(9, "0"))
    nanos += -fraction if (match[6] or "").startswith("-") else fraction
    return (-nanos if match[1] == "-" else nanos) // 10**6
