"""Observability of a broker: metrics and health checks over HTTP, and the export of metrics and traces."""

from __future__ import annotations

import asyncio
import difflib
import os
import re
from collections.abc import Mapping, Set
from contextlib import AsyncExitStack
from typing import Final

import structlog

from sharebroker_protocol import tracing
from sharebroker_protocol.tracing.settings import invalid_variables
from sharebroker_server.broker.settings import ServeSettings, parse_address, parse_roles
from sharebroker_server.telemetry.http import Health, HttpServer, Reply, health_page
from sharebroker_server.telemetry.metrics import CONTENT_TYPE, AppendMetricsByLog, Exposition, Metrics
from sharebroker_server.telemetry.process import LoopLag, ProcessCost, release

_log = structlog.get_logger()

METRICS: Final = "/metrics"
STARTED: Final = "/startedz"
READY: Final = "/readyz"
LIVE: Final = "/livez"

_SIMILARITY: Final = 0.85
"""Similarity of two names, 1 for equal names, above which one is suggested for the other."""

_OTHER_VARIABLES: Final = frozenset(
    {"OTEL_CONFIG_FILE", "OTEL_LOG_LEVEL", "OTEL_NODE_IP", "OTEL_POD_IP", "OTEL_SEMCONV_STABILITY_OPT_IN"}
    | {"OTEL_PROPAGATORS", "OTEL_METRICS_EXEMPLAR_FILTER"}
)
_OTHER_TOOLS: Final = re.compile(
    "OTEL_(BLRP|LOGRECORD|EXPERIMENTAL|INSTRUMENTATION|RESOURCE_ATTRIBUTES|PYTHON|JAVA|JAVAAGENT|JAVASCRIPT"
    "|JS|NODE|DOTNET|GO|PHP|RUBY|COLLECTOR|OPERATOR|EXPORTER_(?!OTLP_)|EXPORTER_OTLP_(LOGS|PROFILES)_)"
)
"""Variables of other tools of OpenTelemetry, which are often set for all processes of a machine or pod."""


class Observability:
    """Collects metrics and health checks of the process; serves or exports them if requested."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.health = Health()
        self.appends = AppendMetricsByLog()
        self._lag = LoopLag()
        self._exposition = Exposition(self.metrics)
        pages = {
            METRICS: self._text,
            STARTED: health_page(self.health.is_started),
            READY: health_page(self.health.is_ready),
            LIVE: health_page(self.health.is_live),
        }
        self._http = HttpServer(pages)
        self.address: str | None = None
        for families in (ProcessCost().families, self._lag.families, self.appends.families):
            self.metrics.add(families)

    async def start(self, address: str) -> None:
        """Starts the HTTP server at HOST:PORT, before the process serves.

        Raises KafkaError INVALID_CONFIG.
        """
        host, port = parse_address(address, "--metrics")
        self.address = f"{host}:{await self._http.start(host, port)}"

    def start_sampling(self) -> None:
        """Starts the metrics that are sampled periodically."""
        self._lag.start()

    async def stop(self) -> None:
        """Stops the sampling and the HTTP server."""
        self._lag.stop()
        await self._http.stop()
        await self._exposition.close()

    def export(self, settings: ServeSettings, address: str, stack: AsyncExitStack) -> None:
        """Starts the export of metrics by OTLP if requested; `stack` stops it."""
        if settings.telemetry.metrics is None:
            return
        with invalid_variables():
            from sharebroker_server.telemetry.otlp import MetricsExport  # imports OpenTelemetry's SDK

        resource = attributes(settings.roles, address)
        export = MetricsExport(
            self.metrics, self._exposition, settings.telemetry, resource, log_export_failure
        )
        export.start()
        stack.push_async_callback(export.stop)

    async def _text(self) -> Reply:
        return Reply(200, await self._exposition.text(), CONTENT_TYPE)


def start_tracing(settings: ServeSettings, address: str, stack: AsyncExitStack) -> None:
    """Starts tracing if requested; `stack` stops it, after all code that may be traced."""
    if settings.telemetry.traces is None or settings.telemetry.sampling.never:
        return
    with invalid_variables():
        from sharebroker_protocol.tracing import setup  # imports OpenTelemetry's SDK

    exporting = setup.begin(settings.telemetry, attributes(settings.roles, address), log_export_failure)
    tracing.turn(exporting.tracer)

    async def end() -> None:
        tracing.turn(None)
        await asyncio.to_thread(exporting.stop)

    stack.push_async_callback(end)


def attributes(roles: Set[str], address: str) -> dict[str, str]:
    """Returns the resource attributes; OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES override them."""
    suffix = "" if roles == parse_roles("all") else "-" + "-".join(sorted(roles))
    return {
        "service.name": f"sharebroker{suffix}",
        "service.version": release(),
        "service.instance.id": address,
    }


def log_export_failure(logger: str, reason: str) -> None:
    """Logs that a collector does not accept telemetry."""
    _log.warning("telemetry export failing; telemetry may be dropped", by=logger, reason=reason)


def log_unknown_variables(environment: Mapping[str, str] = os.environ) -> None:
    """Logs OTEL_* variables that OpenTelemetry does not define.

    Other tools may read them, so they are no errors.
    """
    from opentelemetry.sdk import environment_variables

    defined = {name for name in vars(environment_variables) if name.startswith("OTEL_")} | _OTHER_VARIABLES
    unknown = sorted(
        name
        for name in environment
        if name.startswith("OTEL_") and name not in defined and not _OTHER_TOOLS.match(name)
    )
    if unknown:
        _log.warning(
            "ignoring unknown OTEL_* environment variables", names=[_hint(n, defined) for n in unknown]
        )


def _hint(name: str, defined: Set[str]) -> str:
    similar = difflib.get_close_matches(name, sorted(defined), n=1, cutoff=_SIMILARITY)
    return f"{name} (did you mean {similar[0]}?)" if similar else name
