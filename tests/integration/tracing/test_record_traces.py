"""One trace covers a record's path: produced, appended, acquired, lock lost, acquired again, accepted,
written.

The same assertions run on the spans that a collector receives and on those that a real Jaeger returns.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.request import urlopen
from uuid import uuid4

import confluent_kafka
import grpc
import pytest
from typer.testing import CliRunner

from sharebroker.aio import Admin, DeadLetters, Producer, ShareConsumer
from sharebroker.cli.app import app
from sharebroker.cli.jaeger import FinishedSpan, of_jaeger
from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.gateway.v1 import produce_pb2 as produce
from sharebroker_protocol.tracing.context import TraceContext
from tests.integration.tracing.conftest import (
    CLIENT,
    LOCK,
    Traced,
    environment,
    serving,
    started,
    tracing_here,
)
from tests.support.client import Client, connected
from tests.support.jaeger import JAEGER, MISSING, jaeger
from tests.support.otlp import collecting, collecting_over_http
from tests.testkit.brokers import Cluster, Serve, four_processes, one_process
from tests.testkit.waiting import eventually, until

PATIENCE = 30.0

pytestmark = pytest.mark.xdist_group("record traces")  # its tests share a cluster, some by name


@pytest.fixture(scope="module")
def collected() -> Iterator[Traced]:
    """Four processes that export to a collector."""
    with (
        collecting() as collector,
        serving(four_processes, collector.url) as cluster,
        tracing_here(collector.url),
    ):
        yield Traced(cluster, collector.spans, collector.url)


@pytest.fixture(scope="module")
def in_jaeger() -> Iterator[Traced]:
    """One process that exports to Jaeger."""
    with (
        jaeger() as found,
        serving(one_process, found.otlp) as cluster,
        tracing_here(found.otlp),
    ):

        def spans() -> list[FinishedSpan]:
            with urlopen(f"{found.query}/api/traces?service={CLIENT}&limit=1000", timeout=30) as response:
                return of_jaeger(json.load(response))

        yield Traced(cluster, spans, found.otlp, found.query)


@pytest.fixture(
    params=[
        "collected",
        pytest.param("in_jaeger", marks=pytest.mark.skipif(JAEGER is None, reason=MISSING)),
    ]
)
def traced(request: pytest.FixtureRequest) -> Traced:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Traced)
    return found


async def time_out_then_accept(client: Client, topic: str, group: str) -> None:
    """The first member never acknowledges."""
    first = await client.acquire(group, topic, 1, member="silent", wait=20)
    assert [record.delivery_count for record in first.records] == [1]
    (record,) = (await client.acquire(group, topic, 1, member="worker", wait=20)).records
    assert record.delivery_count == 2
    assert await client.acknowledge(group, "worker", [record]) == [ErrorCode.NONE]


def trace_spans(traced: Traced, topic: str, *awaited: str) -> list[FinishedSpan]:
    """Returns the spans of the traces of the topic's records, once all required spans are there.

    Processes export at different times: the last export of one does not imply those of the others.
    """
    found: list[FinishedSpan] = []

    def whole() -> bool:
        spans = traced.spans()
        ids = {span.name.trace for span in spans if span.operation == f"create {topic}"}
        found[:] = [span for span in spans if span.name.trace in ids]
        return not Counter(awaited) - Counter(operations(found, topic))

    until(whole, PATIENCE)
    return found


def operations(spans: Sequence[FinishedSpan], topic: str) -> list[str]:
    """Returns span names without the topic's name; for calls, without the package's."""
    return [span.operation.removesuffix(f" {topic}").rpartition(".")[2] for span in spans]


def by_operation(spans: Sequence[FinishedSpan], topic: str) -> dict[str, list[FinishedSpan]]:
    found: dict[str, list[FinishedSpan]] = {}
    for operation, span in zip(operations(spans, topic), spans, strict=True):
        found.setdefault(operation, []).append(span)
    return found


async def test_lost_lock_appears_in_the_trace(traced: Traced) -> None:
    async with connected(traced.cluster.address) as client, Producer(traced.cluster.address) as producer:
        topic, _ = await client.create()
        group = await client.group(share_record_lock_duration_ms=LOCK)
        sent = await producer.publish(topic, b"unsampled", key=b"nor this", partition=0)
        await time_out_then_accept(client, topic, group)
    twice = ("acquire", "write state", "append state")
    whole = ("create", "send", "append", "lock lost", "accept", *twice, *twice)
    spans = trace_spans(traced, topic, *whole)
    named = by_operation(spans, topic)
    (create,), (send,), (append,) = named["create"], named["send"], named["append"]
    first, second = named["acquire"]
    (lost,), (accepted,) = named["lock lost"], named["accept"]
    written = named["write state"]

    assert create.parent == ""
    assert {span.parent for span in (send, append, first, second)} == {create.name.span}
    assert (lost.parent, accepted.parent) == (first.name.span, second.name.span)
    assert {span.parent for span in written} == {lost.name.span, accepted.name.span}
    path = [create, append, first, lost, second, accepted]
    assert path == sorted(path, key=lambda span: span.begun)
    assert create.service == CLIENT
    for span in (append, first, lost, second, accepted):
        assert span.attributes["messaging.system"] == "sharebroker"
        assert span.attributes["messaging.destination.name"] == topic
        assert span.attributes["messaging.destination.partition.id"] == "0"
        assert span.attributes["messaging.kafka.offset"] == sent.offset
    for span, count in ((first, 1), (lost, 1), (second, 2), (accepted, 2)):
        assert span.attributes["messaging.consumer.group.name"] == group
        assert span.attributes["messaging.sharebroker.delivery_count"] == count
    assert "lock" in lost.error
    assert accepted.attributes["messaging.sharebroker.settled"] == "accept"
    assert not any(span.error for span in spans if span is not lost)
    assert sorted(operations(spans, topic)) == sorted((*whole, *called(spans)))


def called(spans: Sequence[FinishedSpan]) -> list[str]:
    """Returns calls between processes; a single process has none."""
    return [span.operation.rpartition(".")[2] for span in spans if "/" in span.operation]


async def test_related_spans_are_linked(collected: Traced) -> None:
    """Three records in one call: each has its trace, and one state write links to all of them."""
    async with connected(collected.cluster.address) as client:
        topic, _ = await client.create()
        group = await client.group()
        await client.publish(topic, ["a", "b", "c"], partition=0)
        records = await client.acquire_all(group, topic, 3, "worker")
        assert await client.acknowledge(group, "worker", records, 3) == [ErrorCode.NONE] * 3
    spans = trace_spans(collected, topic, *["create", "reject"] * 3, "send", "write state")
    assert len({span.name.trace for span in spans}) == 3
    (sent,) = [span for span in spans if span.operation == f"send {topic}"]
    made = [span.name for span in spans if span.operation == f"create {topic}"]
    assert {*sent.links} == {name for name in made if name.span != sent.parent}
    (written,) = [span for span in spans if span.operation == f"write state {topic}"]
    rejected = [span for span in spans if span.operation == f"reject {topic}"]
    assert {*written.links, (written.name.trace, written.parent)} == {span.name for span in rejected}
    assert all(written.name in span.links for span in rejected if span.name.span != written.parent)
    assert {span.attributes["messaging.kafka.offset"] for span in rejected} == {0, 1, 2}


async def test_callers_trace_contains_its_calls(collected: Traced) -> None:
    mine = TraceContext(int(uuid4()), 7)
    async with connected(collected.cluster.address) as client:
        topic, _ = await client.create()
        record = produce.PublishRecord(text="x", partition=0)
        request = produce.PublishRequest(topic=topic, records=[record])
        await client.produce.Publish(request, timeout=20, metadata=mine.headers)
    calls = ("ProduceService/Publish", "SharePartitionLeaderService/Produce")
    spans = trace_spans(collected, topic, "create", "append", *calls)
    assert {span.name.trace for span in spans} == {f"{mine.trace_id:032x}"}
    (variables,), (passed,) = (by_operation(spans, topic)[call] for call in calls)
    (made,) = by_operation(spans, topic)["create"]
    assert (variables.parent, made.parent, passed.parent) == (
        f"{7:016x}",
        variables.name.span,
        variables.name.span,
    )
    assert [span.service for span in (variables, passed)] == [
        "sharebroker-gateway",
        "sharebroker-share-partition-leader",
    ]


async def test_record_at_the_size_limit_is_accepted_with_and_without_tracing(collected: Traced) -> None:
    """The headers of a trace could make a batch exceed the size limit."""
    async with connected(collected.cluster.address) as client:
        topic, _ = await client.create(max_message_bytes="1000")
        await client.publish(topic, ["x" * 890, "y"], partition=0)
    assert len(by_operation(trace_spans(collected, topic, "create", "send", "append"), topic)["create"]) == 1


async def test_trace_continues_after_the_producer_timed_out(collected: Traced) -> None:
    redis = collected.cluster.redis
    assert redis is not None
    async with connected(collected.cluster.address) as client:
        topic, _ = await client.create()
        group = await client.group()
        await client.publish(topic, ["a"], partition=0)
        redis.process.send_signal(signal.SIGSTOP)
        try:
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await client.publish(topic, ["b"], partition=0, timeout=2)
        finally:
            redis.process.send_signal(signal.SIGCONT)
        assert refused.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED  # whichever clock was first
        await client.acquire_all(group, topic, 2, "worker")
    spans = trace_spans(collected, topic, *["create", "send", "append", "acquire"] * 2)
    named = by_operation(spans, topic)
    (late,) = [span for span in named["create"] if span.error]
    for operation in ("append", "acquire"):
        (span,) = [span for span in named[operation] if span.attributes["messaging.kafka.offset"] == 1]
        assert (span.parent, span.error) == (late.name.span, "")


@pytest.mark.parametrize("codec", ["none", "zstd"])
async def test_kafka_clients_continue_the_trace(collected: Traced, codec: str) -> None:
    mine = TraceContext(int(uuid4()), 7)
    async with connected(collected.cluster.address) as client:
        topic, _ = await client.create()
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": collected.cluster.kafka, "compression.type": codec}
    )
    for number in range(10):
        headers: dict[str, str | bytes | None] = dict(mine.headers) if number == 4 else {}
        producer.produce(topic, value=b"x" * 100, headers=headers, partition=0)
    assert producer.flush(20) == 0
    found: list[FinishedSpan] = []

    def received() -> bool:
        found[:] = [span for span in collected.spans() if span.name.trace == f"{mine.trace_id:032x}"]
        return bool(found)

    until(received, PATIENCE)
    (appended,) = found
    assert (appended.operation, appended.parent) == (f"append {topic}", f"{7:016x}")
    assert appended.attributes["messaging.kafka.offset"] == 4


async def test_collector_may_use_http(tmp_path: Path) -> None:
    variables = {
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=me",
    }
    variables |= {"OTEL_EXPORTER_OTLP_COMPRESSION": "gzip", "OTEL_EXPORTER_OTLP_TIMEOUT": "600"}
    serve = Serve(tmp_path, ["--data", str(tmp_path / "data")])
    with collecting_over_http(503) as collector, started(serve, collector.url, **variables):
        async with connected(serve.address) as client:
            topic, _ = await client.create()
            await client.publish(topic, ["a"], partition=0)
        received = Traced(Cluster([serve], ""), collector.spans, collector.url)
        spans = await asyncio.to_thread(trace_spans, received, topic, "create", "send", "append")
    assert {span.service for span in spans} == {"sharebroker"}
    assert set(collector.paths) == {"/v1/traces"}
    assert {headers["authorization"] for headers in collector.headers} == {"me"}
    assert "telemetry export failing" not in serve.log


async def test_rejection_is_explained_in_the_trace(collected: Traced) -> None:
    async with connected(collected.cluster.address) as client:
        topic, _ = await client.create()
        group = await client.group()
        await client.publish(topic, ["a"], partition=0)
        (record,) = await client.acquire_all(group, topic, 1, "worker")
        record.lock_token += 1
        assert await client.acknowledge(group, "worker", [record]) == [ErrorCode.INVALID_RECORD_STATE]
    (refused,) = by_operation(trace_spans(collected, topic, "acknowledge"), topic)["acknowledge"]
    assert refused.attributes["error.type"] == "INVALID_RECORD_STATE"
    assert refused.attributes["messaging.sharebroker.reason"] == "stale_token"


async def test_one_trace_covers_letter_and_redrive(collected: Traced) -> None:
    address = collected.cluster.address
    async with (
        connected(address) as client,
        Admin(address) as admin,
        DeadLetters(address) as letters,
        Producer(address) as producer,
    ):
        topic, _ = await client.create()
        group = await client.group()
        await admin.enable_dead_letters(group, f"dlq.{group}", 1)
        await producer.publish(topic, b"a", partition=0)
        records = await client.acquire_all(group, topic, 1, "worker")
        assert await client.acknowledge(group, "worker", records, 3) == [ErrorCode.NONE]
        await eventually(lambda: letters.list_letters(f"dlq.{group}"), PATIENCE)
        page = await letters.redrive(f"dlq.{group}")
        assert [result.error for result in page.results] == [None]
        records = await client.acquire_all(group, topic, 1, "worker")
        assert await client.acknowledge(group, "worker", records) == [ErrorCode.NONE]
    steps = ["create", "append", "acquire", "reject", "append", "acquire", "accept"]
    letter = f"append dlq.{group}"
    spans = trace_spans(collected, topic, *steps, group)
    wanted = {letter, *(f"{step} {topic}" for step in steps)}
    path = [span for span in spans if span.operation in wanted]
    path.sort(key=lambda span: span.begun)
    assert [span.operation for span in path] == [
        *(f"{step} {topic}" for step in steps[:4]),
        letter,
        *(f"{step} {topic}" for step in steps[4:]),
    ]
    assert len({span.name.trace for span in path}) == 1
    assert [span.attributes.get("messaging.kafka.offset") for span in path[1:]] == [0, 0, 0, 0, 1, 1, 1]


async def test_worker_spans_belong_to_the_records_trace(collected: Traced, tmp_path: Path) -> None:
    """A program that traces, and `sharebroker work`, which passes the trace context to its command."""
    address = collected.cluster.address
    async with connected(address) as client:
        topic, _ = await client.create()
        group = await client.group()
        await client.publish(topic, ["a"], partition=0)
        with tracing_here(collected.otlp):
            async with ShareConsumer(address, group, [topic]) as consumer:
                async for record in consumer:
                    with consumer.processing(record):
                        await record.accept()
                    break
        await client.publish(topic, ["b"], partition=0)
    received = tmp_path / "received"
    command = [sys.executable, "-c", "from sharebroker.cli import main; main()", "work", topic, "-g", group]
    command += ["--server", address, "--timeout", "5", "--", "sh", "-c", f"echo $TRACEPARENT > {received}"]
    own = os.environ | environment(collected.otlp)
    ran = await asyncio.to_thread(
        subprocess.run, command, env=own, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran
    named = by_operation(trace_spans(collected, topic, *["create", "process", "accept"] * 2), topic)
    for create, process in zip(named["create"], named["process"], strict=True):
        assert (process.name.trace, process.parent) == (create.name.trace, create.name.span)
        assert process.attributes["messaging.consumer.group.name"] == group
        assert process.attributes["messaging.sharebroker.settled"] == "accept"
    mine, works = named["process"]
    assert (mine.service, works.service) == (CLIENT, "sharebroker-cli")
    assert received.read_text().strip() == f"00-{works.name.trace}-{works.name.span}-01"


@pytest.mark.skipif(JAEGER is None, reason=MISSING)
async def test_command_prints_a_records_path(in_jaeger: Traced) -> None:
    async with connected(in_jaeger.cluster.address) as client:
        topic, _ = await client.create()
        group = await client.group()
        await client.publish(topic, ["a", "b"], partition=0)
        records = await client.acquire_all(group, topic, 2, "worker")
        assert await client.acknowledge(group, "worker", records) == [ErrorCode.NONE] * 2

    def run(offset: int, *options: str) -> Any:
        command = ["trace", topic, "0", str(offset), "--jaeger", in_jaeger.query, *options]
        return CliRunner().invoke(app, command)

    def whole() -> bool:
        awaited = {
            0: ("create", "append state"),
            1: ("create", "accept", "write state (for several records)"),
        }
        return all(what in run(offset).stdout for offset, some in awaited.items() for what in some)

    await eventually(lambda: asyncio.to_thread(whole), 60)
    received = await asyncio.to_thread(run, 1, "--group", group)
    assert received.exit_code == 0
    for what in (f"{topic}-0@1, trace", "create", "append", f"group {group}, member worker, delivery 1"):
        assert what in received.stdout
    assert "send (for several records)" in received.stdout
    assert "write state (for several records)" in received.stdout
    assert "for several" not in (await asyncio.to_thread(run, 0, "--group", group)).stdout
    document = json.loads((await asyncio.to_thread(run, 0, "--json")).stdout)
    assert [row["operation"].partition(" ")[0] for row in document if row["depth"] == 0] == ["create"]
    missing = await asyncio.to_thread(run, 77)
    assert missing.exit_code == 1
    assert "OTEL_TRACES_SAMPLER" in missing.stderr
