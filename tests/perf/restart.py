"""`make bench-restart`: seconds until a broker with an embedded Valkey serves again after a kill.

The broker holds the requested amount of incompressible records. Either both processes are killed, or only the
server, whose death ends Valkey. The start is over when the ready file exists: Valkey has loaded its data, and
the broker serves.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import tempfile
import time
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Annotated, Final

import redis
import typer
import uvloop

from sharebroker_protocol.gateway.v1 import produce_pb2 as produce
from tests.support.client import Client, connected
from tests.testkit.brokers import Serve

PARTITIONS: Final = 12
CALLS: Final = 24
SECONDS: Final = 60.0
_LOADED: Final = re.compile(r"DB loaded from append only file: ([\d.]+) seconds")


async def fill(address: str, size: int, record: int, batch: int) -> None:
    """Publishes `size` bytes in records of `record` bytes, `batch` of them in each request."""
    async with connected(address) as client:
        topic, _ = await client.create(PARTITIONS)
        requests = iter(range(0, size, record * batch))

        async def publish() -> None:
            for _ in requests:
                await _publish(client, topic, record, batch)

        await asyncio.gather(*(publish() for _ in range(CALLS)))


_numbers = count()


async def _publish(client: Client, topic: str, record: int, batch: int) -> None:
    partition = next(_numbers) % PARTITIONS
    records = [produce.PublishRecord(value=os.urandom(record), partition=partition) for _ in range(batch)]
    await client.produce.Publish(produce.PublishRequest(topic=topic, records=records), timeout=SECONDS)


def kill_both(serve: Serve, socket: Path) -> None:
    """Kills Valkey and then the server."""
    with redis.Redis(unix_socket_path=str(socket)) as valkey:
        os.kill(int(valkey.info("server")["process_id"]), signal.SIGKILL)
    serve.kill()


def timed_start(serve: Serve, valkey_log: Path) -> tuple[float, float]:
    """Starts the broker; returns the seconds until it serves, and those that Valkey loaded its data."""
    begun = time.perf_counter()
    serve.start()
    took = time.perf_counter() - begun
    return took, float(_LOADED.findall(valkey_log.read_text())[-1])


def main(
    gigabytes: Annotated[float, typer.Option(min=0.001, help="Gigabytes of records.")] = 1.0,
    record: Annotated[int, typer.Option(min=1, help="Bytes of a record.")] = 1000,
    batch: Annotated[int, typer.Option(min=1, max=10_000, help="Records of a request.")] = 100,
    runs: Annotated[int, typer.Option(min=1, help="Starts after each kind of kill.")] = 3,
) -> None:
    """Fill a broker, kill it, and print how long each start takes."""
    with tempfile.TemporaryDirectory(prefix="sharebroker-bench-") as name:
        valkey = Path(name) / "data" / "valkey"
        serve = Serve(Path(name), ["--data", str(Path(name) / "data"), "--max-memory", "0"])
        serve.start()
        try:
            uvloop.run(fill(serve.address, round(gigabytes * 1e9), record, batch))
            typer.echo(f"{gigabytes} GB in records of {record} bytes, {batch} a request")
            typer.echo(f"{'killed':16} {'serves after':>13} {'Valkey loads':>13}")
            for run in range(2 * runs):
                both = run < runs
                if both:
                    kill_both(serve, valkey / "redis.sock")
                else:
                    serve.kill()
                took, loading = timed_start(serve, valkey / "redis.log")
                typer.echo(f"{'both' if both else 'server only':16} {took:11.1f} s {loading:11.1f} s")
        finally:
            with suppress(AssertionError):
                serve.stop()


if __name__ == "__main__":
    typer.run(main)
