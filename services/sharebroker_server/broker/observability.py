"""Lets others watch this process: metrics and three questions of health over HTTP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Final

from sharebroker_server.broker.settings import ServeSettings, parse_address
from sharebroker_server.broker.tracing_setup import attributes, log_export_failure
from sharebroker_server.cluster.router import GATEWAY, ROLES
from sharebroker_server.coordinator_runtime.metrics import AnyHost, not_active, shard_families
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


class Watching:
    """What the parts of a process tell, and the server that asks them; nobody asks where none is started."""

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
        """Serve at HOST:PORT, also while the process is still starting. Raises KafkaError INVALID_CONFIG."""
        host, port = parse_address(address, "--metrics")
        self.address = f"{host}:{await self._http.start(host, port)}"

    def begin(self) -> None:
        """What is looked at all the time is, from here on."""
        self._lag.start()

    async def stop(self) -> None:
        """Serve no more."""
        self._lag.stop()
        await self._http.stop()
        await self._exposition.close()

    def export(self, settings: ServeSettings, address: str, stack: AsyncExitStack) -> None:
        """Tell a collector, too, if that was asked for."""
        if settings.telemetry.metrics is None:
            return
        from sharebroker_server.telemetry.otlp import MetricsExport  # brings OpenTelemetry in

        who = attributes(settings.roles, address)
        export = MetricsExport(self.metrics, self._exposition, settings.telemetry, who, log_export_failure)
        export.start()
        stack.push_async_callback(export.stop)

    def redis(self, links: Mapping[str, Link]) -> None:
        """Tell of links by what they are for, and ask over each whether Redis is there."""
        self.metrics.add(partial(link_families, links))
        self.health.checks += [partial(unreachable, link) for link in links.values()]

    def owned(self, holder: LeaseHolder, hosts: Sequence[AnyHost]) -> None:
        """Tell of leases and shards; without those that should be ours the process is not ready."""
        self.metrics.add(partial(lease_families, holder))
        self.metrics.add(partial(shard_families, hosts))
        self.health.missing += [holder.missing, partial(not_active, hosts)]
        if GATEWAY in holder.member.roles:
            self.health.missing.append(partial(_absent, holder))

    async def _text(self) -> Reply:
        return Reply(200, await self._exposition.text(), CONTENT_TYPE)


def _absent(holder: LeaseHolder) -> list[str]:
    """Roles that nobody in the cluster has: a gateway can do nothing without them."""
    there = {role for member in holder.members for role in member.roles}
    return [f"a process with the role {role} in its cluster" for role in ROLES if role not in there]
