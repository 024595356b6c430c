"""Runs the command line of the server's distribution."""

from __future__ import annotations

import asyncio
import subprocess
import sys

MAIN = [sys.executable, "-c", "from sharebroker.cli import main; main()"]


async def command(*words: str) -> subprocess.CompletedProcess[str]:
    """Runs `sharebroker` to its end."""
    return await asyncio.to_thread(
        subprocess.run, [*MAIN, *words], capture_output=True, text=True, check=False
    )
