"""Options that many commands share, and the examples below their help."""

from __future__ import annotations

from typing import Annotated, Final

import typer

DEFAULT_SERVER: Final = "127.0.0.1:9090"
MOST: Final = 2**31 - 1
"""No number of a partition, nor of partitions, is higher on the wire."""

Server = Annotated[
    str,
    typer.Option(
        "--server", envvar="SHAREBROKER_SERVER", metavar="HOST:PORT", help="The gateway to talk to."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic.")]
Group = Annotated[str, typer.Argument(metavar="GROUP", help="Id of the share group.")]
InGroup = Annotated[str, typer.Option("--group", "-g", help="Id of the share group to consume in.")]


def examples(*commands: str) -> str:
    """The epilog of a command's help."""
    return "\n\n".join(["[bold]Examples[/bold]", *(f"  {command}" for command in commands)])


def settings(assignments: list[str] | None, option: str) -> dict[str, str]:
    """`key=value` texts as a mapping. Raises typer.BadParameter."""
    found: dict[str, str] = {}
    for assignment in assignments or ():
        key, equals, value = assignment.partition("=")
        if not key or not equals:
            raise typer.BadParameter(f"{assignment!r} is not of the form key=value.", param_hint=option)
        found[key.strip()] = value.strip()
    return found


def changes(assignments: list[str] | None, unset: list[str] | None, option: str) -> dict[str, str | None]:
    """What to set, and what to set back to its default (None). Raises typer.BadParameter."""
    return {**settings(assignments, option), **dict.fromkeys(unset or ())}
