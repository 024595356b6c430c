"""Liveness, readiness and startup probes: also while a process starts, and while Redis is unavailable."""

from __future__ import annotations

import asyncio
import subprocess
import sys

from tests.integration.watching.conftest import Watched
from tests.testkit.servers import free_port
from tests.testkit.waiting import eventually

PAGES = ("/startedz", "/readyz", "/livez")


async def probe(question: str, url: str) -> subprocess.CompletedProcess[str]:
    """Runs `sharebroker probe` as a container's health check does."""
    main = [sys.executable, "-c", "from sharebroker.cli import main; main()"]
    command = [*main, "probe", question, "--url", url]
    return await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)


async def test_process_without_redis_is_live_and_not_ready(watched: Watched) -> None:
    assert [(await watched.ask(page)) for page in PAGES] == [(200, "ok\n")] * 3
    assert (await probe("ready", watched.url)).returncode == 0
    watched.redis.kill()
    try:

        async def unready() -> bool:
            return (await watched.ask("/readyz"))[0] == 503

        await eventually(unready, 60)
        assert "Redis" in (await watched.ask("/readyz"))[1]
        assert await watched.ask("/livez") == (200, "ok\n")
        assert await watched.ask("/startedz") == (200, "ok\n")
        assert (await watched.metrics()).of("redis_connected") == 0
        asked = await probe("ready", watched.url)
        assert (asked.returncode, asked.stdout) == (1, "")
        assert asked.stderr.startswith("sharebroker probe: not ready: ")
        assert (await probe("live", watched.url)).returncode == 0
    finally:
        watched.redis.restart()

    async def ready() -> bool:
        return await watched.ask("/readyz") == (200, "ok\n")

    await eventually(ready, 60)


async def test_probe_rejects_invalid_usage(watched: Watched) -> None:
    unused = f"http://127.0.0.1:{free_port()}"
    assert "no response" in (await probe("live", unused)).stderr
    for question, url in (("well", watched.url), ("live", "ftp://here"), ("live", "http://")):
        asked = await probe(question, url)
        assert asked.returncode == 2
        assert asked.stderr.startswith("Usage: sharebroker probe")
    assert (await probe("--help", watched.url)).returncode == 0
