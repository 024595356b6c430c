"""The exclusive lock of a data directory, held by this process and by the server it starts."""

from __future__ import annotations

import asyncio
import fcntl
import os
from pathlib import Path
from typing import Final

from sharebroker_server.redis_link.link.errors import DataDirectoryInUse, EmbeddedRedisFailed

ORPHAN_SECONDS: Final = 20.0
"""How long the server of a process that died may take to finish."""


class DirectoryLock:
    """A lock on `<directory>/lock`, which also tells the holder's process id.

    It ends with the last process that has its file open: a server that outlives us keeps it.
    """

    def __init__(self, directory: Path) -> None:
        self.fd = -1
        self._directory = directory

    async def take(self) -> None:
        """Make the directory and lock it; wait for the server of a holder that died.

        Raises DataDirectoryInUse, EmbeddedRedisFailed when the directory cannot be used.
        """
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            self.fd = os.open(self._directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise EmbeddedRedisFailed(f"{self._directory} cannot be used: {error.strerror}") from error
        try:
            async with asyncio.timeout(ORPHAN_SECONDS):
                while True:
                    if self._try_lock():
                        break
                    await asyncio.sleep(0.05)
        except (TimeoutError, DataDirectoryInUse):
            holder = self._holder() or "just starting"
            self.release()
            raise DataDirectoryInUse(f"{self._directory} is in use by another process ({holder})") from None
        os.ftruncate(self.fd, 0)
        os.pwrite(self.fd, str(os.getpid()).encode(), 0)

    def release(self) -> None:
        """Let go; harmless when not held."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def _try_lock(self) -> bool:
        """Lock, or False while only a dead holder's server is in the way. Raises DataDirectoryInUse."""
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if _alive(self._holder()):
                raise DataDirectoryInUse(str(self._directory)) from None
            return False
        return True

    def _holder(self) -> int:
        """The process id in the file; 0 when the holder has not written it yet."""
        return int(os.pread(self.fd, 32, 0) or b"0")


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
