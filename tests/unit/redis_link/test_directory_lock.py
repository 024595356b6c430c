"""The lock of a data directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sharebroker_server.redis_link.directory_lock import DirectoryLock
from sharebroker_server.redis_link.port import DataDirectoryInUse, EmbeddedRedisFailed


async def test_a_directory_has_one_holder_at_a_time(tmp_path: Path) -> None:
    first, second = DirectoryLock(tmp_path / "data"), DirectoryLock(tmp_path / "data")
    await first.acquire()
    with pytest.raises(DataDirectoryInUse, match=f"is in use by another process \\({os.getpid()}\\)"):
        await second.acquire()
    first.release()
    await second.acquire()
    second.release()
    second.release()


async def test_an_unusable_directory_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EmbeddedRedisFailed, match="cannot be used"):
        await DirectoryLock(tmp_path / "file" / "data").acquire()
