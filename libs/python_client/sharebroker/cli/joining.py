"""Joining a group from the command line, and leaving it when the user says so."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from sharebroker.cli.admin import admin, topics
from sharebroker.cli.topics import alter_configs, config_changes
from sharebroker.cluster.v1.cluster_pb2 import RESOURCE_TYPE_GROUP

FromBeginning = Annotated[
    bool,
    typer.Option(
        "--from-beginning",
        help="Where the group has no start yet, start with the oldest record "
        "(sets the group's share.auto.offset.reset to earliest).",
    ),
]


def prepare(server: str, group: str, topic: str, from_beginning: bool) -> None:
    """Checks that the topic is there, and sets where the group starts. Raises KafkaError."""
    with admin(server) as calls:
        topics(calls, topic)
        if from_beginning:
            earliest = config_changes({"share.auto.offset.reset": "earliest"}, ())
            alter_configs(calls, RESOURCE_TYPE_GROUP, group, earliest)


@contextmanager
def on_interrupt(act: Callable[[], None]) -> Iterator[None]:
    """Calls `act` in the running event loop for Ctrl-C and SIGTERM."""
    loop = asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM)
    for number in signals:
        loop.add_signal_handler(number, act)
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)
