"""One broker process: builds the context, starts the roles, and serves until SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
from pathlib import Path
from typing import Any, Final

import orjson
import structlog

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.broker import roles, tracing_setup
from sharebroker_server.broker.context import BrokerContext, Listeners, build_context
from sharebroker_server.broker.logs import follow_level
from sharebroker_server.broker.observability import Observability
from sharebroker_server.broker.settings import ServeSettings, parse_address
from sharebroker_server.gateway.kafka.connection.listener import KafkaServer
from sharebroker_server.leases.holder import LeaseHolder
from sharebroker_server.leases.observe import MembershipLogger
from sharebroker_server.rpc.errors import CallLimits
from sharebroker_server.rpc.server import GrpcServer
from sharebroker_server.rpc.tls import Tls

_log = structlog.get_logger()

_GC_THRESHOLD: Final = 20_000
"""Threshold of the cyclic garbage collector: hardly any of our objects are in cycles."""

WILDCARD_HOSTS: Final = frozenset({"0.0.0.0", "[::]", "::"})
"""Hosts of listeners that accept connections on every address of the machine."""

GRACE: Final = 3.0
"""Seconds that calls in flight have to end at shutdown."""

HAND_OVER_TIMEOUT: Final = 10.0
"""Seconds to complete writes and to release leases at shutdown, even if Redis is unavailable."""


class Process:
    """A broker; call `start`, then `stop`."""

    def __init__(self, settings: ServeSettings) -> None:
        self._settings = settings
        self._stack = contextlib.AsyncExitStack()
        self.address = ""
        self.metrics_address: str | None = None

    async def start(self) -> None:
        """Starts to serve.

        Raises KafkaError INVALID_CONFIG if a setting is invalid or a dependency is unavailable.
        """
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise

    async def stop(self) -> None:
        """Drains calls and streams, hands over the leases, and stops."""
        await self._stack.aclose()

    async def _start(self) -> None:
        if self._settings.ready_file is not None:
            _prepare_ready_file(self._settings.ready_file)
        observability = Observability()
        if self._settings.metrics is not None:
            await observability.start(self._settings.metrics)
            self.metrics_address = observability.address
        if self._settings.watched:
            observability.start_sampling()
            self._stack.push_async_callback(observability.stop)
        host, _ = parse_address(self._settings.grpc, "--grpc")
        config = self._settings.config
        tls = None if self._settings.tls is None else Tls(self._settings.tls)
        server = GrpcServer(CallLimits(config.grpc_max_calls, config.queued_max_request_bytes), tls)
        port = server.bind(self._settings.grpc)
        self.address = self._settings.advertise or f"{self._reachable(host)}:{port}"
        tracing_setup.begin(self._settings, self.address, self._stack)
        observability.export(self._settings, self.address, self._stack)
        kafka = self._bind_kafka(self.address, tls)
        context = await build_context(
            self._settings, self.address, Listeners(kafka, tls), observability, self._stack
        )
        follow_level(context.catalog)
        membership_log = MembershipLogger(context.holder)
        self._stack.push_async_callback(membership_log.stop)
        observability.metrics.add(server.counts.families)
        for role in (name for name in roles.ORDER if name in self._settings.roles):
            for service in await roles.ORDER[role](context, self._stack):
                server.add(service)
        observability.observe_leases(context.holder, context.hosts)
        await self._serve(context, server)
        self._write_ready_file(port, kafka)
        _log.info(
            "serving",
            address=self.address,
            kafka=kafka.address if kafka else None,
            metrics=self.metrics_address,
            roles=sorted(self._settings.roles),
        )
        membership_log.start()

    def _reachable(self, host: str) -> str:
        """Returns a host that peers can connect to: a wildcard host names no machine."""
        return socket.gethostname() if self._settings.redis and host in WILDCARD_HOSTS else host

    def _bind_kafka(self, address: str, tls: Tls | None) -> KafkaServer | None:
        if not self._settings.opens_kafka:
            return None
        host, requested = parse_address(self._settings.kafka, "--kafka")
        server = KafkaServer(None if tls is None else tls.context)
        self._stack.callback(server.close)
        port = server.bind(host, requested)
        name = address.rpartition(":")[0] if host in WILDCARD_HOSTS else host
        server.address = self._settings.kafka_advertise or f"{name}:{port}"
        return server

    async def _serve(self, context: BrokerContext, server: GrpcServer) -> None:
        # The stack is unwound in reverse: leave notice, streams, leases, calls, then the context of the
        # roles. A call that arrives after the hand-over is rejected with the new owner.
        await server.start()
        self._stack.push_async_callback(server.stop, GRACE)
        self._stack.push_async_callback(_hand_over, context.holder)
        for drain in context.drains:
            self._stack.push_async_callback(drain)
        await context.holder.start()
        if context.kafka is not None:
            await context.kafka.start()
            self._stack.push_async_callback(context.kafka.stop, GRACE, hang_up=False)
        self._stack.push_async_callback(context.holder.announce_leaving)
        await server.ready()
        context.observability.health.started()
        self._stack.callback(context.observability.health.stop)

    def _write_ready_file(self, port: int, kafka: KafkaServer | None) -> None:
        path = self._settings.ready_file
        if path is None:
            return
        content = {
            "grpc": self.address,
            "port": port,
            "kafka": kafka.address if kafka else None,
            "metrics": self.metrics_address,
            "pid": os.getpid(),
            "roles": sorted(self._settings.roles),
        }
        _replace(path, orjson.dumps(content))
        self._stack.callback(path.unlink, missing_ok=True)


async def _hand_over(holder: LeaseHolder) -> None:
    """Hands over the leases; leases that are not released in time expire."""
    try:
        async with asyncio.timeout(HAND_OVER_TIMEOUT):
            await holder.stop()
    except TimeoutError:
        _log.warning("lease hand-over timed out", seconds=HAND_OVER_TIMEOUT)


def _prepare_ready_file(path: Path) -> None:
    """Removes the file of a dead process. Raises INVALID_CONFIG if the file is not writable."""
    temporary = _temporary(path)
    try:
        path.unlink(missing_ok=True)
        temporary.write_bytes(b"")
        temporary.unlink()
    except OSError as failure:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"The ready file {path} cannot be written: {failure.strerror}."
        ) from failure


def _replace(path: Path, content: bytes) -> None:
    """Replaces the file atomically."""
    temporary = _temporary(path)
    temporary.write_bytes(content)
    temporary.replace(path)


def _temporary(path: Path) -> Path:
    return path.with_name(f"{path.name}.new")


async def run(settings: ServeSettings) -> None:
    """Serves until SIGTERM or SIGINT. Raises KafkaError INVALID_CONFIG if the broker cannot start."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(report)
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stopping.set)
    process = Process(settings)
    await process.start()
    gc.collect()
    gc.freeze()  # a full collection of the loaded modules takes 15 milliseconds
    gc.set_threshold(_GC_THRESHOLD)
    await stopping.wait()
    _log.info("stopping")
    await process.stop()


def report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Logs unhandled exceptions as asyncio does, except failed host lookups.

    uvloop continues a lookup whose caller timed out, and the caller has reported its error.
    """
    if not isinstance(context.get("exception"), socket.gaierror):
        loop.default_exception_handler(context)
