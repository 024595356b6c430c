"""Options shared by commands, positions in a topic, and the examples below a command's help."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final

import typer

from sharebroker.admin_model import EARLIEST, LATEST
from sharebroker.cli.login import add_login

DEFAULT_SERVER: Final = "127.0.0.1:9090"
MOST: Final = 2**31 - 1
"""The largest partition number and partition count (int32 on the wire)."""

Server = Annotated[
    str,
    typer.Option(
        "--server",
        envvar="SHAREBROKER_SERVER",
        metavar="HOST:PORT",
        callback=add_login,
        help="The gateway to connect to; tls://HOST:PORT for TLS.",
    ),
]
LagServer = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="HOST:PORT",
        callback=add_login,
        help="The gateway for lag requests; by default one of the cluster.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic.")]
Group = Annotated[str, typer.Argument(metavar="GROUP", help="Id of the share group.")]
Partition = Annotated[
    int, typer.Argument(metavar="PARTITION", min=0, max=MOST, help="Number of the partition.")
]
Timeout = Annotated[
    float | None,
    typer.Option("--timeout", min=0, help="Stop after SECONDS without a record.", metavar="SECONDS"),
]
Unset = Annotated[
    list[str] | None, typer.Option("--unset", help="A property to restore to its default; may be repeated.")
]
InGroup = Annotated[str, typer.Option("--group", "-g", help="Id of the share group to consume in.")]


def examples(*commands: str) -> str:
    """Returns the epilog of a command's help."""
    return "\n\n".join(["[bold]Examples[/bold]", *(f"  {command}" for command in commands)])


def settings(assignments: list[str] | None, option: str) -> dict[str, str]:
    """Parses `key=value` texts into a mapping. Raises typer.BadParameter."""
    found: dict[str, str] = {}
    for assignment in assignments or ():
        key, equals, value = assignment.partition("=")
        if not key or not equals:
            raise typer.BadParameter(f"{assignment!r} is not of the form key=value.", param_hint=option)
        found[key.strip()] = value.strip()
    return found


def changes(assignments: list[str] | None, unset: list[str] | None, option: str) -> dict[str, str | None]:
    """Returns properties to set, and those to restore to their default (None). Raises typer.BadParameter."""
    return {**settings(assignments, option), **dict.fromkeys(unset or ())}


@dataclass(frozen=True, slots=True)
class OffsetSpec:
    """An offset, or a timestamp (milliseconds since the Unix epoch, or EARLIEST, LATEST)."""

    offset: int | None = None
    timestamp: int | None = None


def _time_with_zone(text: str) -> datetime | None:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if time.tzinfo is None else time


def parse_time(text: str, option: str | None = None) -> datetime:
    """Parses an ISO 8601 time with zone. Raises typer.BadParameter, which names the option."""
    time = _time_with_zone(text)
    if time is None:
        problem = f"{text!r} is not a time such as 2026-01-31T08:00:00+00:00."
        raise typer.BadParameter(problem, param_hint=option)
    return time


DeliverAt = Annotated[
    datetime | None,
    typer.Option(
        "--deliver-at",
        metavar="TIME",
        parser=parse_time,
        help="When share groups deliver the records: an ISO 8601 time with zone. The topic needs "
        "delivery.delay.enable=true.",
    ),
]
DeliverAfter = Annotated[
    float | None,
    typer.Option("--deliver-after", metavar="SECONDS", min=0.0, help="As --deliver-at, in seconds from now."),
]


def parse_position(text: str, option: str = "--to") -> OffsetSpec:
    """Parses `earliest`, `latest`, an offset or an ISO 8601 time with zone. Raises typer.BadParameter."""
    if text in ("earliest", "latest"):
        return OffsetSpec(timestamp=EARLIEST if text == "earliest" else LATEST)
    if text.isdecimal():
        return OffsetSpec(offset=int(text))
    time = _time_with_zone(text)
    if time is None:
        raise typer.BadParameter(
            f"{text!r} is not earliest, latest, an offset or a time such as 2026-01-31T08:00:00+00:00.",
            param_hint=option,
        )
    return OffsetSpec(
        timestamp=max(0, round(time.timestamp() * 1000))
    )  # negative timestamps mean EARLIEST and LATEST
