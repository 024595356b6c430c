"""`make bench-link`: CPU of the client per Redis command, of the project's own link beside redis-py.

Both use hiredis, uvloop and the Unix socket of a fresh Valkey, and append 100 bytes to a stream (XADD).
Either 100 commands travel together, or each is awaited before the next. The best of several runs counts.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, Final

import redis.asyncio
import typer
import uvloop

from sharebroker_server.redis_link.link import RedisLink
from tests.perf.servers import raw_valkey

ROUND: Final = 100
VALUE: Final = b"x" * 100
XADD: Final = ("XADD", "bench", "MAXLEN", "1000", "*", "value", VALUE)

Append = Callable[[], Awaitable[object]]


async def cpu_per_command(append: Append, times: int, commands: int) -> float:
    """Microseconds of this process's CPU per command, where one `append` sends `commands` of them."""
    begun = time.process_time()
    for _ in range(times):
        await append()
    return (time.process_time() - begun) / (times * commands) * 1e6


async def measure(rounds: int, runs: int) -> dict[str, tuple[float, float]]:
    """By case, the figure of the link and that of redis-py."""
    with tempfile.TemporaryDirectory(prefix="sharebroker-bench-") as name:
        async with raw_valkey(Path(name), "everysec") as url:
            link = await RedisLink.connect(url)
            client: Any = redis.asyncio.Redis.from_url(url)

            async def link_together() -> None:
                await asyncio.gather(*[link.send(*XADD) for _ in range(ROUND)])

            async def client_together() -> None:
                pipeline = client.pipeline(transaction=False)
                for _ in range(ROUND):
                    pipeline.execute_command(*XADD)
                await pipeline.execute()

            async def best(append: Append, commands: int) -> float:
                return min([await cpu_per_command(append, rounds, commands) for _ in range(runs)])

            try:
                return {
                    f"pipelined, {ROUND} a round": (
                        await best(link_together, ROUND),
                        await best(client_together, ROUND),
                    ),
                    "one awaited command at a time": (
                        await best(lambda: link.send(*XADD), 1),
                        await best(lambda: client.execute_command(*XADD), 1),
                    ),
                }
            finally:
                await client.aclose()
                await link.close()


def main(
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of a run, of 100 commands or of one.")] = 2000,
    runs: Annotated[int, typer.Option(min=1, help="Runs; the best counts.")] = 3,
) -> None:
    """Measure both, and print microseconds of CPU per command."""
    typer.echo(f"{'CPU of the client per command':32} {'link':>10} {'redis-py':>10} {'ratio':>7}")
    for case, (ours, theirs) in uvloop.run(measure(rounds, runs)).items():
        typer.echo(f"{case:32} {ours:7.1f} µs {theirs:7.1f} µs {theirs / ours:6.1f}×")
    typer.echo(f"redis-py {redis.__version__}")


if __name__ == "__main__":
    typer.run(main)
