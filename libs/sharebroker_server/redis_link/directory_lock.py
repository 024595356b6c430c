"""Locks a data directory against other processes, and against the server of a dead one."""

from __future__ import annotations

import asyncio
import fcntl
import os
from pathlib import Path
from typing import Final

from sharebroker_server.redis_link.data_folder import make_private
from sharebroker_server.redis_link.port import DataDirectoryInUse, EmbeddedRedisFailed

ORPHAN_SECONDS: Final = 20.0
"""Seconds to wait for the exit of the server of a dead process."""


class DirectoryLock:
    """A lock on the file `lock` in a directory, which contains the holder's process id.

    The lock ends with the last process that has the file open: a server that outlives its broker keeps it.
    """

    def __init__(self, directory: Path) -> None:
        self.fd = -1
        self._directory = directory

    async def __aenter__(self) -> None:
        await self.acquire()

    async def __aexit__(self, *_: object) -> None:
        self.release()

    async def acquire(self) -> None:
        """Locks the directory, and creates it if necessary; waits for the server of a dead holder.

        Raises DataDirectoryInUse, and EmbeddedRedisFailed if the directory is unusable.
        """
        make_private(self._directory, names=())
        try:
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
        """Releases the lock; does nothing if it is not held."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def _try_lock(self) -> bool:
        """Tries to lock; returns False while the server of a dead holder runs. Raises DataDirectoryInUse."""
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if _alive(self._holder()):
                raise DataDirectoryInUse(str(self._directory)) from None
            return False
        return True

    def _holder(self) -> int:
        """Returns the process id in the file; 0 if the holder has not written it yet."""
        return int(os.pread(self.fd, 32, 0) or b"0")


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
