"""Positions in a topic as given on the command line."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import typer

from sharebroker.aio.admin import EARLIEST, LATEST


@dataclass(frozen=True, slots=True)
class Position:
    """An offset, or a timestamp (milliseconds since the Unix epoch, or EARLIEST, LATEST)."""

    offset: int | None = None
    timestamp: int | None = None


def parse_position(text: str) -> Position:
    """Parses `earliest`, `latest`, an offset or an ISO 8601 time with zone. Raises typer.BadParameter."""
    if text in ("earliest", "latest"):
        return Position(timestamp=EARLIEST if text == "earliest" else LATEST)
    if text.isdecimal():
        return Position(offset=int(text))
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise typer.BadParameter(
            f"{text!r} is not earliest, latest, an offset or a time such as 2026-01-31T08:00:00+00:00.",
            param_hint="--to",
        )
    return Position(
        timestamp=max(0, round(time.timestamp() * 1000))
    )  # negative timestamps mean EARLIEST and LATEST
