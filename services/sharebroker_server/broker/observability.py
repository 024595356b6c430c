"""Observability of a broker: metrics, and startup, readiness and liveness checks over HTTP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Final

from sharebroker_protocol.tracing.env_validation import invalid_variables
from sharebroker_server.broker.settings import ServeSettings, parse_address
from sharebroker_server.broker.tracing_setup import attributes, log_export_failure
from sharebroker_server.cluster.router import GATEWAY, ROLES
from sharebroker_server.coordinator_runtime.host import AnyHost, not_active, shard_families
from sharebroker_server.leases.holder import LeaseHolder
from sharebroker_server.leases.observe import lease_families
from sharebroker_server.redis_link.link.port import Link
from sharebroker_server.redis_link.metrics import link_families, unreachable
from sharebroker_server.telemetry.appends import Appends
from sharebroker_server.telemetry.exposition import CONTENT_TYPE, Exposition
from sharebroker_server.telemetry.health import Health, page
from sharebroker_server.telemetry.http import HttpServer, Reply
from sharebroker_server.telemetry.metrics import Metrics
from sharebroker_server.telemetry.process import LoopLag, ProcessCost

METRICS: Final = "/metrics"
STARTED: Final = "/startedz"
READY: Final = "/readyz"
LIVE: Final = "/livez"


class Observability:
    """Collects metrics and health checks of all parts of the process, and serves or exports them if
    requested.
    """

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.health = Health()
        self.appends = Appends()
        self._lag = LoopLag()
        self._exposition = Exposition(self.metrics)
        pages = {
            METRICS: self._text,
            STARTED: page(self.health.is_started),
            READY: page(self.health.is_ready),
            LIVE: page(self.health.is_live),
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

    def observe_redis(self, links: Mapping[str, Link]) -> None:
        """Adds metrics and readiness checks of the links, given by their purpose."""
        self.metrics.add(partial(link_families, links))
        self.health.checks += [partial(unreachable, link) for link in links.values()]

    def observe_leases(self, holder: LeaseHolder, hosts: Sequence[AnyHost]) -> None:
        """Adds metrics of leases and shards. The process is ready once it holds the leases it should own."""
        self.metrics.add(partial(lease_families, holder))
        self.metrics.add(partial(shard_families, hosts))
        self.health.missing += [holder.missing, partial(not_active, hosts)]
        if GATEWAY in holder.member.roles:
            self.health.missing.append(partial(_missing_roles, holder))

    async def _text(self) -> Reply:
        return Reply(200, await self._exposition.text(), CONTENT_TYPE)


def _missing_roles(holder: LeaseHolder) -> list[str]:
    """Returns the roles that no live broker has: a gateway serves nothing without them."""
    present = {role for member in holder.members for role in member.roles}
    return [f"a broker with the role {role}" for role in ROLES if role not in present]
