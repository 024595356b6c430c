"""Shared by the commands that consume: set-up of the group and interruption."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from sharebroker.blocking.admin import Admin

FromBeginning = Annotated[
    bool,
    typer.Option(
        "--from-beginning",
        help="Start with the oldest record where the group has no start offset yet "
        "(sets the group's share.auto.offset.reset to earliest).",
    ),
]


def prepare(server: str, group: str, topic: str, from_beginning: bool) -> None:
    """Checks that the topic exists and sets where the group starts. Raises KafkaError."""
    with Admin(server) as admin:
        admin.describe_topic(topic)
        if from_beginning:
            admin.alter_group_configs(group, {"share.auto.offset.reset": "earliest"})


@contextmanager
def on_interrupt(act: Callable[[], None]) -> Iterator[None]:
    """Calls `act` in the running event loop on SIGINT (Ctrl-C) and SIGTERM."""
    loop = asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM)
    for number in signals:
        loop.add_signal_handler(number, act)
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)
