"""Shows data once, or again and again: `--watch`."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Annotated, Any, Final

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from sharebroker.cli.output import console, explain, print_json
from sharebroker_protocol.errors import KafkaError

SHORTEST: Final = 0.2
"""Seconds between two views."""

Watch = Annotated[
    float | None,
    typer.Option(
        "--watch",
        min=SHORTEST,
        metavar="SECONDS",
        help="Repeat every SECONDS, in place in a terminal, until Ctrl-C.",
        show_default=False,
    ),
]


def watch(
    every: float | None,
    as_json: bool,
    load: Callable[[], Any],
    view: Callable[[Any], RenderableType],
    count: int | None = None,
) -> None:
    """Shows what `load` returns, once if `every` is None, else each `every` seconds until Ctrl-C or `count`.

    JSON then has one document per line. The first failure ends the command. A later one that is retriable is
    shown below the last data.
    """
    if every is None:
        data = load()
        if as_json:
            print_json(data)
        else:
            console().print(view(data))
        return
    shown = console()
    if as_json:
        _repeat(every, count, load, lambda data: typer.echo(json.dumps(data)))
    elif shown.is_terminal:
        _live(shown, every, count, load, view)
    else:
        _repeat(every, count, load, lambda data: shown.print(view(data)))


def _live(
    shown: Console,
    every: float,
    count: int | None,
    load: Callable[[], Any],
    view: Callable[[Any], RenderableType],
) -> None:
    """Shows views in place on the alternate screen, and leaves the last one on the normal screen."""
    last: RenderableType | None = None
    with Live(console=shown, screen=True, auto_refresh=False) as live:

        def show(data: Any) -> None:
            nonlocal last
            last = view(data)
            live.update(last, refresh=True)

        def failed(error: KafkaError) -> None:
            if last is not None:
                live.update(Group(last, Text(explain(error), style="red")), refresh=True)

        _repeat(every, count, load, show, failed)
    if last is not None:
        shown.print(last)


def _repeat(
    every: float,
    count: int | None,
    load: Callable[[], Any],
    show: Callable[[Any], None],
    failed: Callable[[KafkaError], None] | None = None,
) -> None:
    shown = 0
    try:
        while True:
            try:
                show(load())
                shown += 1
            except KafkaError as error:
                if failed is None or not shown or not error.retriable:
                    raise
                failed(error)
            if count is not None and shown >= count:
                return
            threading.Event().wait(every)
    except KeyboardInterrupt:
        return
