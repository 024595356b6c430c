"""Logging of a broker: one line per event on standard error, as JSON or as text."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from logging.handlers import WatchedFileHandler
from pathlib import Path
from typing import Final, Literal

import orjson
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from sharebroker_protocol import tracing
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.metadata_cache import MetadataCache
from sharebroker_server.catalog.records import CatalogRecord, ConfigRecord
from sharebroker_server.security.audit import AUDIT

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
    """Drops events below the level, which may change while the broker runs; never those of the audit log."""

    level = logging.INFO

    def __call__(self, logger: WrappedLogger, name: str, event: EventDict) -> EventDict:
        if LEVELS.get(name, _ALWAYS) < self.level and event.get("logger") != AUDIT:
            raise structlog.DropEvent
        return event


_threshold: Final = _Threshold()


class _AuditFile:
    """Writes the events of the audit log to a file instead of the log, once it is open.

    A file that was renamed is opened again, so that logrotate needs no signal.
    """

    def __init__(self) -> None:
        self._file: WatchedFileHandler | None = None

    def open(self, path: Path) -> None:
        """Opens the file, which only this user can read if it is new. Raises OSError."""
        path.touch(mode=0o600)
        self.close()
        self._file = WatchedFileHandler(path, encoding="utf-8")

    def close(self) -> None:
        """Closes the file: events go to the log again."""
        if self._file is not None:
            self._file.close()
        self._file = None

    def __call__(self, _logger: WrappedLogger, _name: str, event: EventDict) -> EventDict:
        if self._file is None or event.get("logger") != AUDIT:
            return event
        self._file.handle(logging.LogRecord(AUDIT, logging.INFO, "", 0, _json(event), None, None))
        raise structlog.DropEvent


_audit_file: Final = _AuditFile()


def open_audit_file(path: Path) -> None:
    """Writes the audit log to a file from now on. Raises KafkaError INVALID_CONFIG."""
    try:
        _audit_file.open(path)
    except OSError as failure:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"The audit log {path} cannot be written: {failure.strerror}."
        ) from failure


def configure_logging(how: Format = "auto", broker: int | None = None) -> None:
    """Configures structlog and the standard library's logging equally; the level is `info`.

    Each line names the number `broker`, if it is given.
    """
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        *([] if broker is None else [_named(broker)]),
        add_trace,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso"),
    ]
    last = _renderers(how)
    structlog.configure(
        processors=[_threshold, *shared, _audit_file, *last],
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


class WarningsOnStderr:
    """Logs warnings and errors on standard error in a block: standard output is for the result."""

    def __enter__(self) -> None:
        self._before = structlog.get_config()
        structlog.configure(
            wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
            logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        )

    def __exit__(self, *_: object) -> None:
        structlog.configure(**self._before)


def _named(broker: int) -> Processor:
    def add(_logger: WrappedLogger, _name: str, event: EventDict) -> EventDict:
        event.setdefault("broker", broker)
        return event

    return add


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
