"""One process: lays the foundation, starts its roles, serves until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from pathlib import Path
from typing import Final

import orjson
import structlog

from libs.leases.holder import LeaseHolder
from libs.rpc.server import GrpcServer
from services.broker import roles
from services.broker.foundation import Foundation, lay
from services.broker.settings import ServeSettings, parse_address

_log = structlog.get_logger()

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
        host, _ = parse_address(self._settings.grpc, "--grpc")
        server = GrpcServer()
        port = server.bind(self._settings.grpc)
        self.address = self._settings.advertise or f"{self._reachable(host)}:{port}"
        base = await lay(self._settings, self.address, self._stack)
        for role in (name for name in roles.ORDER if name in self._settings.roles):
            for service in await roles.ORDER[role](base, self._stack):
                server.add(service)
        await self._serve(base, server)
        self._write_ready_file(port)
        _log.info("serving", address=self.address, roles=sorted(self._settings.roles))

    def _reachable(self, host: str) -> str:
        """What other processes can use: a host that stands for every address names no machine."""
        return socket.gethostname() if self._settings.redis and host in EVERYWHERE else host

    async def _serve(self, base: Foundation, server: GrpcServer) -> None:
        # Taken down in reverse: streams, calls, leases, then what the roles stand on.
        self._stack.push_async_callback(_hand_over, base.holder)
        await server.start()
        self._stack.push_async_callback(server.stop, GRACE)
        for drain in base.drains:
            self._stack.push_async_callback(drain)
        await base.holder.start()
        await server.ready()

    def _write_ready_file(self, port: int) -> None:
        path = self._settings.ready_file
        if path is None:
            return
        facts = {
            "grpc": self.address,
            "port": port,
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


def _replace(path: Path, content: bytes) -> None:
    """Whoever reads the file finds it whole."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_bytes(content)
    fresh.replace(path)


async def run(settings: ServeSettings) -> None:
    """Serves until SIGTERM or SIGINT. Raises KafkaError INVALID_CONFIG where it cannot start."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stopping.set)
    process = Process(settings)
    await process.start()
    await stopping.wait()
    _log.info("stopping")
    await process.stop()
