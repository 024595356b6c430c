"""Runs the command line of the server's distribution."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys

MAIN = [sys.executable, "-c", "from sharebroker.cli import main; main()"]
_KILLED = """
import os, signal, sys
from sharebroker.cli import main
left, flush = int(sys.argv.pop(1)), os.fdatasync
def counted(descriptor):
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    flush(descriptor)
os.fdatasync = counted
main()
"""


async def command(*words: str) -> subprocess.CompletedProcess[str]:
    """Runs `sharebroker` to its end."""
    return await asyncio.to_thread(
        subprocess.run, [*MAIN, *words], capture_output=True, text=True, check=False
    )


async def killed_at(flush: int, *words: str) -> None:
    """Runs `sharebroker` until SIGKILL ends it, just before it flushes data to the disk for this time."""
    line = [sys.executable, "-c", _KILLED, str(flush), *words]
    done = await asyncio.to_thread(subprocess.run, line, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
