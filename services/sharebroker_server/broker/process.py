"""One process: lays the foundation, starts its roles, serves until it is told to stop."""

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
from sharebroker_server.broker.context import Edge, Foundation, lay
from sharebroker_server.broker.logs import follow_level
from sharebroker_server.broker.observability import Watching
from sharebroker_server.broker.settings import ServeSettings, parse_address
from sharebroker_server.gateway.kafka.connection.listener import KafkaServer
from sharebroker_server.leases.holder import LeaseHolder
from sharebroker_server.leases.observe import MembershipLogger
from sharebroker_server.rpc.limits import UnderWay
from sharebroker_server.rpc.server import GrpcServer
from sharebroker_server.rpc.tls import Tls

_log = structlog.get_logger()

_GARBAGE: Final = 20_000
"""Objects made, less those gone, before cycles among them are looked for: hardly any of ours are in one."""

EVERYWHERE: Final = frozenset({"0.0.0.0", "[::]", "::"})
"""Hosts to listen on that stand for every address of the machine."""

GRACE = 3.0
"""Seconds that calls under way get when the process stops."""

HAND_OVER = 10.0
"""Seconds for finishing writes and giving leases back, also while Redis or a coordinator is away."""


class Process:
    """A running server; `start`, then `stop`."""

    def __init__(self, settings: ServeSettings) -> None:
        self._settings = settings
        self._stack = contextlib.AsyncExitStack()
        self.address = ""
        self.watched_at: str | None = None

    async def start(self) -> None:
        """Serves. Raises KafkaError INVALID_CONFIG where something it needs cannot be had."""
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise

    async def stop(self) -> None:
        """Finishes what is under way, hands its leases over, stops."""
        await self._stack.aclose()

    async def _start(self) -> None:
        if self._settings.ready_file is not None:
            _make_room(self._settings.ready_file)
        watching = Watching()
        if self._settings.metrics is not None:
            await watching.start(self._settings.metrics)
            self.watched_at = watching.address
        if self._settings.watched:
            watching.begin()
            self._stack.push_async_callback(watching.stop)
        host, _ = parse_address(self._settings.grpc, "--grpc")
        config = self._settings.config
        tls = None if self._settings.tls is None else Tls(self._settings.tls)
        server = GrpcServer(UnderWay(config.grpc_max_calls, config.queued_max_request_bytes), tls)
        port = server.bind(self._settings.grpc)
        self.address = self._settings.advertise or f"{self._reachable(host)}:{port}"
        tracing_setup.begin(self._settings, self.address, self._stack)
        watching.export(self._settings, self.address, self._stack)
        kafka = self._bind_kafka(self.address, tls)
        base = await lay(self._settings, self.address, Edge(kafka, tls), watching, self._stack)
        follow_level(base.catalog)
        membership_log = MembershipLogger(base.holder)
        self._stack.push_async_callback(membership_log.stop)
        watching.metrics.add(server.counts.families)
        for role in (name for name in roles.ORDER if name in self._settings.roles):
            for service in await roles.ORDER[role](base, self._stack):
                server.add(service)
        watching.owned(base.holder, base.hosts)
        await self._serve(base, server)
        self._write_ready_file(port, kafka)
        _log.info(
            "serving",
            address=self.address,
            kafka=kafka.address if kafka else None,
            metrics=self.watched_at,
            roles=sorted(self._settings.roles),
        )
        membership_log.start()

    def _reachable(self, host: str) -> str:
        """What other processes can use: a host that stands for every address names no machine."""
        return socket.gethostname() if self._settings.redis and host in EVERYWHERE else host

    def _bind_kafka(self, address: str, tls: Tls | None) -> KafkaServer | None:
        if not self._settings.opens_kafka:
            return None
        host, asked = parse_address(self._settings.kafka, "--kafka")
        server = KafkaServer(None if tls is None else tls.context)
        self._stack.callback(server.close)
        port = server.bind(host, asked)
        name = address.rpartition(":")[0] if host in EVERYWHERE else host
        server.address = self._settings.kafka_advertise or f"{name}:{port}"
        return server

    async def _serve(self, base: Foundation, server: GrpcServer) -> None:
        # Taken down in reverse: notice is given; then streams, leases, calls, what the roles stand on.
        # Whoever still calls when the leases are another's is told so, and goes there.
        await server.start()
        self._stack.push_async_callback(server.stop, GRACE)
        self._stack.push_async_callback(_hand_over, base.holder)
        for drain in base.drains:
            self._stack.push_async_callback(drain)
        await base.holder.start()
        if base.kafka is not None:
            await base.kafka.start()
            self._stack.push_async_callback(base.kafka.stop, GRACE, hang_up=False)
        self._stack.push_async_callback(base.holder.announce_leaving)
        await server.ready()
        base.watching.health.started()
        self._stack.callback(base.watching.health.stop)

    def _write_ready_file(self, port: int, kafka: KafkaServer | None) -> None:
        path = self._settings.ready_file
        if path is None:
            return
        facts = {
            "grpc": self.address,
            "port": port,
            "kafka": kafka.address if kafka else None,
            "metrics": self.watched_at,
            "pid": os.getpid(),
            "roles": sorted(self._settings.roles),
        }
        _replace(path, orjson.dumps(facts))
        self._stack.callback(path.unlink, missing_ok=True)


async def _hand_over(holder: LeaseHolder) -> None:
    """Gives the leases back; what cannot be finished in time is left to those who take them later."""
    try:
        async with asyncio.timeout(HAND_OVER):
            await holder.stop()
    except TimeoutError:
        _log.warning("leases were not handed over in time", seconds=HAND_OVER)


def _make_room(path: Path) -> None:
    """Removes what a process that died has left; raises INVALID_CONFIG where the file cannot be written."""
    fresh = _fresh(path)
    try:
        path.unlink(missing_ok=True)
        fresh.write_bytes(b"")
        fresh.unlink()
    except OSError as failure:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"The ready file {path} cannot be written: {failure.strerror}."
        ) from failure


def _replace(path: Path, content: bytes) -> None:
    """Whoever reads the file finds it whole."""
    fresh = _fresh(path)
    fresh.write_bytes(content)
    fresh.replace(path)


def _fresh(path: Path) -> Path:
    return path.with_name(f"{path.name}.new")


async def run(settings: ServeSettings) -> None:
    """Serves until SIGTERM or SIGINT. Raises KafkaError INVALID_CONFIG where it cannot start."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(report)
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stopping.set)
    process = Process(settings)
    await process.start()
    gc.collect()
    gc.freeze()  # what was loaded stays: a full collection that looks at all of it takes 15 milliseconds
    gc.set_threshold(_GARBAGE)
    await stopping.wait()
    _log.info("stopping")
    await process.stop()


def report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log what nobody waited for, as asyncio does, but for look-ups.

    uvloop goes on looking a name up that whoever connects has given up, and said so.
    """
    if not isinstance(context.get("exception"), socket.gaierror):
        loop.default_exception_handler(context)
