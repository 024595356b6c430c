"""A collector of traces, and processes that export to it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from unittest.mock import patch

from sharebroker.cli.jaeger import FinishedSpan
from sharebroker_protocol import tracing
from sharebroker_protocol.tracing import setup
from sharebroker_protocol.tracing.settings import parse
from tests.testkit.brokers import Cluster, Serve
from tests.testkit.plugin import TEST_PROPERTIES

LOCK = "1000"
CLIENT = "the-test"


@dataclass(frozen=True)
class Traced:
    """A cluster that traces, the exported spans, their endpoint, and Jaeger's address."""

    cluster: Cluster
    spans: Callable[[], Sequence[FinishedSpan]]
    otlp: str
    query: str = ""


def environment(endpoint: str, **more: str) -> dict[str, str]:
    return {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_BSP_SCHEDULE_DELAY": "200", **more}


@contextmanager
def serving(
    start: Callable[..., AbstractContextManager[Cluster]], endpoint: str, *options: str, **more: str
) -> Iterator[Cluster]:
    """Starts processes that export traces to an endpoint."""
    properties = [option for pair in TEST_PROPERTIES for option in ("--set", pair)]
    with patch.dict(os.environ, environment(endpoint, **more)), start(*properties, *options) as cluster:
        yield cluster


@contextmanager
def started(serve: Serve, endpoint: str, **more: str) -> Iterator[None]:
    """Starts one process that exports to an endpoint; it is stopped however the test ends."""
    with patch.dict(os.environ, environment(endpoint, **more)):
        serve.start()
    try:
        yield
    finally:
        code = serve.stop()
    assert code == 0


def _ignore(by: str, why: str) -> None:
    """Ignores failed exports: other tests cover them."""


@contextmanager
def tracing_here(endpoint: str, **more: str) -> Iterator[None]:
    """Traces in the test's own process, like a user's program."""
    settings = parse(environment(endpoint, **more))
    exporting, before = setup.begin(settings, {"service.name": CLIENT}, _ignore), tracing.on
    tracing.turn(exporting.tracer)
    try:
        yield
    finally:
        tracing.turn(before)
        exporting.stop()
