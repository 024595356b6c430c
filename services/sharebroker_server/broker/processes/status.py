"""What a supervisor reports about its brokers: metrics, health checks, log lines and the ready file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack

import structlog

from sharebroker_server.broker.authentication import log_unauthenticated
from sharebroker_server.broker.core.supervision import CommandEnd, Supervision
from sharebroker_server.broker.observability import Observability
from sharebroker_server.broker.processes.shared import Shared
from sharebroker_server.broker.ready_file import ReadyFile
from sharebroker_server.broker.settings import ServeSettings
from sharebroker_server.telemetry.metrics import Family, counter, gauge

_log = structlog.get_logger()


class SupervisorStatus:
    """Call `start`, `export`, `serving` once all brokers serve, and `stopping`."""

    def __init__(self, settings: ServeSettings, supervision: Supervision) -> None:
        self.observability = Observability()
        self._settings = settings
        self._supervision = supervision
        self._ready_file = ReadyFile(settings.ready_file)

    async def start(self, stack: AsyncExitStack) -> None:
        """Starts to serve metrics and health checks; `stack` ends it. Raises KafkaError INVALID_CONFIG."""
        self._ready_file.prepare()
        observability = self.observability
        observability.health.starting = "the brokers are starting"
        observability.health.missing.append(lambda: [f"broker {index}" for index in self._supervision.absent])
        observability.metrics.add(self.families)
        if self._settings.metrics is not None:
            await observability.start(self._settings.metrics)
        if self._settings.watched:
            observability.start_sampling()
            stack.push_async_callback(observability.stop)

    def export(self, address: str, stack: AsyncExitStack) -> None:
        """Exports the metrics by OTLP if requested."""
        self.observability.export(self._settings, address, stack)

    def serving(self, shared: Shared, kafka: Iterable[str]) -> None:
        """Reports that all brokers serve; `kafka` are their addresses for Kafka clients."""
        facts: Mapping[str, object] = {
            "kafka": ",".join(kafka) or None,
            "metrics": self.observability.address,
            "roles": sorted(self._settings.roles),
            "processes": self._settings.processes,
        }
        self._ready_file.write({"grpc": shared.address, "port": shared.port, "pid": os.getpid(), **facts})
        self.observability.health.started()
        _log.info("all brokers serve", address=shared.address, **facts)
        log_unauthenticated(self._settings)

    def stopping(self, end: CommandEnd) -> None:
        """Reports that the brokers stop, with the end of the command."""
        self._ready_file.remove()
        self.observability.health.stop()
        if end.code == 0:
            _log.info("stopping")
        elif end.code == 1:
            _log.error("broker failed repeatedly; stopping", reason=end.reason)

    def families(self) -> Iterable[Family]:
        """Returns the metric families."""
        absent, numbers = set(self._supervision.absent), range(self._settings.processes)
        labels = [("broker", str(number)) for number in numbers]
        yield counter(
            "sharebroker_broker_restarts_total",
            "Starts of a broker after it exited, by its supervisor.",
            zip(labels, self._supervision.restarts, strict=True),
        )
        yield gauge(
            "sharebroker_broker_serving",
            "1 while the broker of a supervisor serves, else 0.",
            [(label, number not in absent) for label, number in zip(labels, numbers, strict=True)],
        )
