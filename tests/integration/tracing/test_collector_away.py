"""The collector is unavailable: work continues, memory stays bounded, one log line a minute, no secret is
logged.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sharebroker.aio import Producer
from tests.integration.tracing.conftest import started, tracing_here
from tests.support.client import connected
from tests.support.otlp import collecting
from tests.testkit.brokers import Serve
from tests.testkit.servers import free_port, running
from tests.testkit.waiting import eventually

SMALL = {
    "OTEL_BSP_MAX_QUEUE_SIZE": "64",
    "OTEL_BSP_SCHEDULE_DELAY": "100",
    "OTEL_EXPORTER_OTLP_TIMEOUT": "1",
}
WARNING = "telemetry export failing"


@contextmanager
def closed_port() -> Iterator[str]:
    yield f"http://127.0.0.1:{free_port()}"


@contextmanager
def silent_port() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        yield f"http://127.0.0.1:{silent.getsockname()[1]}"


@pytest.mark.parametrize(
    ("away", "protocol"),
    [(closed_port, "grpc"), (silent_port, "grpc"), (silent_port, "http/protobuf")],
)
async def test_unavailable_collector_does_not_stop_work(away: object, protocol: str, tmp_path: Path) -> None:
    assert callable(away)
    serve = Serve(tmp_path, ["--data", str(tmp_path / "data"), "--metrics", "127.0.0.1:0"])
    small = {**SMALL, "OTEL_EXPORTER_OTLP_PROTOCOL": protocol}
    with away() as endpoint, tracing_here(endpoint, **small), started(serve, endpoint, **small):
        async with connected(serve.address) as client, Producer(serve.address) as producer:
            topic, _ = await client.create()
            group = await client.group()

            async def work() -> None:
                sent = [await producer.send(topic, b"x") for _ in range(50)]
                for one in sent:
                    await one
                records = await client.acquire_all(group, topic, 50, "worker")
                assert not any(await client.acknowledge(group, "worker", records))

            async def warned_while_working() -> bool:
                await work()
                return WARNING in serve.log

            await eventually(warned_while_working, 60)
            for _ in range(5):
                await work()
    output = [json.loads(line) for line in serve.log.splitlines()]
    assert [line["level"] for line in output if WARNING in line["event"]] == ["warning"]


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_process_stops_while_its_collector_is_frozen(protocol: str, tmp_path: Path) -> None:
    variables = {"OTEL_METRICS_EXPORTER": "otlp", "OTEL_METRIC_EXPORT_INTERVAL": "100"}
    variables |= {"OTEL_EXPORTER_OTLP_PROTOCOL": protocol, "OTEL_EXPORTER_OTLP_TIMEOUT": "3600"}
    serve = Serve(tmp_path, ["--data", str(tmp_path / "data")])
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with started(serve, endpoint, OTEL_TRACES_EXPORTER="none", **variables):
            connection, _ = silent.accept()
            connection.recv(1)
        connection.close()


SECRETS = ("pass-of-redis", "token-of-collector", "what-is-in-it", "whose-it-is", "header-of-theirs")


async def test_secrets_are_never_logged(tmp_path: Path) -> None:
    redis, token, value, key, header = SECRETS
    with collecting() as collector, running("valkey", "--requirepass", redis) as server:
        url = f"redis://:{redis}@127.0.0.1:{server.port}"
        more = {"OTEL_EXPORTER_OTLP_HEADERS": f"authorization={token}"}
        serve = Serve(tmp_path, ["--redis", url])
        with tracing_here(collector.url), started(serve, collector.url, **more):
            async with connected(serve.address) as client, Producer(serve.address) as producer:
                topic, _ = await client.create()
                group = await client.group()
                await producer.publish(
                    topic, value.encode(), key=key.encode(), headers=[("x", header.encode())], partition=0
                )
                (record,) = await client.acquire_all(group, topic, 1, "worker")
                record.lock_token += 1
                assert any(await client.acknowledge(group, "worker", [record], 3))
                record.lock_token -= 1
                assert not any(await client.acknowledge(group, "worker", [record], 3))
    assert {"append", "acquire", "acknowledge", "reject"} <= {
        span.operation.partition(" ")[0] for span in collector.spans()
    }
    assert token in {headers.get("authorization") for headers in collector.headers}
    output = "".join(map(str, collector.requests)) + serve.log
    assert not [secret for secret in SECRETS if secret in output]
