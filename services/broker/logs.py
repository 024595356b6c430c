"""Logging of a server: one line of JSON an event on standard error, readable columns in a terminal."""

from __future__ import annotations

import logging
import sys

import orjson
import structlog


def configure_logging(level: int = logging.INFO) -> None:
    """Sets structlog and the standard library's logging up alike."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso"),
    ]
    if sys.stderr.isatty():
        # Rich shows every local of every frame, which holds the loop up for seconds.
        shared.append(structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback))
    else:
        shared.append(structlog.processors.format_exc_info)
        shared.append(structlog.processors.JSONRenderer(serializer=_json))
    structlog.configure(
        processors=shared,
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(levelname)s %(name)s %(message)s")


def _json(event: object, **_: object) -> str:
    return orjson.dumps(event, default=str).decode()
