"""Logging of a broker: one line per event on standard error, as JSON or as text."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from typing import Final, Literal

import orjson
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from sharebroker_protocol import tracing
from sharebroker_server.catalog.metadata_cache import MetadataCache
from sharebroker_server.catalog.records import CatalogRecord, ConfigRecord

Format = Literal["auto", "json", "text"]
"""`auto` is text on a terminal, else JSON."""

LEVELS: Final[Mapping[str, int]] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
"""Values of the property `log.level`."""

_ALWAYS: Final = logging.CRITICAL


class _Threshold:
    """Drops events below the level, which may change while the broker runs."""

    level = logging.INFO

    def __call__(self, logger: WrappedLogger, name: str, event: EventDict) -> EventDict:
        if LEVELS.get(name, _ALWAYS) < self.level:
            raise structlog.DropEvent
        return event


_threshold: Final = _Threshold()


def configure_logging(how: Format = "auto") -> None:
    """Configures structlog and the standard library's logging equally; the level is `info`."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        add_trace,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso"),
    ]
    last = _renderers(how)
    structlog.configure(
        processors=[_threshold, *shared, *last],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    remove_meta = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *shared], processors=[remove_meta, *last]
        )
    )
    logging.basicConfig(handlers=[handler])
    set_level("info")


def set_level(level: str) -> None:
    """Sets the minimum level. Raises KeyError."""
    _threshold.level = LEVELS[level]
    # Information of libraries is not useful to an operator.
    logging.getLogger().setLevel(logging.WARNING if level == "info" else LEVELS[level])


def follow_level(catalog: MetadataCache) -> None:
    """Applies the property `log.level`, now and whenever it changes."""

    def changed(record: CatalogRecord) -> None:
        if isinstance(record, ConfigRecord):
            set_level(catalog.broker.log_level)

    set_level(catalog.broker.log_level)
    catalog.add_observer(changed)


def add_trace(_logger: WrappedLogger, _name: str, event: EventDict) -> EventDict:
    """Adds the ids of the current trace and span to an event."""
    if tracing.on is not None and (current := tracing.on.current()) is not None:
        event["trace_id"] = f"{current.trace_id:032x}"
        event["span_id"] = f"{current.span_id:016x}"
    return event


def _renderers(how: Format) -> list[Processor]:
    if how == "text" or (how == "auto" and sys.stderr.isatty()):
        # Rich formats every local of every frame, which blocks the event loop for seconds.
        plain = structlog.dev.plain_traceback
        return [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain)]
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(serializer=_json)]


def _json(event: object, **_: object) -> str:
    return orjson.dumps(event, default=str).decode()
