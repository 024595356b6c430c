"""`serve` starts, or prints one sentence with the reason; it leaves nothing behind when stopped."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from unittest.mock import patch

import grpc
import pytest

from sharebroker_server.redis_link.data_folder import make_private
from tests.support.client import connected
from tests.testkit.brokers import Serve
from tests.testkit.servers import responds, running
from tests.testkit.waiting import until

_SERVE_CASES: Final = """
import gc, json, os, sys, typer
from sharebroker_server.broker.commands.serve import serve
gc.freeze()
for number, options in enumerate(json.load(sys.stdin)):
    child = os.fork()
    if child == 0:
        for stream in (1, 2):
            os.dup2(os.open(f"{number}.{stream}", os.O_WRONLY | os.O_CREAT, 0o600), stream)
        sys.argv = ["sharebroker", *options]
        typer.run(serve)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
"""Runs `serve` in a process per list of options. They share the import of the broker, which takes longest,
and do not collect its objects at exit.
"""


def failures(options: Sequence[Sequence[str]], folder: Path) -> Iterator[str]:
    """Yields the one sentence on standard error for each list of options before the exit with status 2."""
    done = subprocess.run(
        [sys.executable, "-c", _SERVE_CASES],
        input=json.dumps([["--grpc", "127.0.0.1:0", "--kafka", "127.0.0.1:0", *each] for each in options]),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    for number, code in enumerate(done.stdout.split()):
        out, message = ((folder / f"{number}.{stream}").read_text() for stream in (1, 2))
        yield sentence_of(int(code), out, message)


def sentence_of(code: int, out: str, message: str) -> str:
    """Returns the sentence that `serve` printed; checks that it failed, with nothing else printed."""
    assert code == 2, message
    assert out == ""
    assert message.startswith("sharebroker serve: ")
    assert message.count("\n") == 1, message
    return message.removeprefix("sharebroker serve: ").rstrip()


class Failing:
    """A `serve` that cannot start; several run at a time, since some need long to give up."""

    def __init__(self, *options: str, **environment: str) -> None:
        command = [sys.executable, "-m", "sharebroker_server.broker", "--grpc", "127.0.0.1:0"]
        command += ["--kafka", "127.0.0.1:0", *options]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | environment
        )

    def sentence(self) -> str:
        """Returns the one sentence on standard error before the exit with status 2."""
        out, message = self._process.communicate(timeout=60)
        return sentence_of(self._process.returncode, out, message)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    serve = Serve(tmp_path, ["--data", str(tmp_path / "data")], "all")
    serve.start()
    yield serve
    serve.stop()


BAD_OPTIONS: Final[Mapping[str, tuple[list[str], str]]] = {
    "unknown property": (["--set", "no.such.key=1"], "no.such.key"),
    "no value": (["--set", "num.partitions"], "num.partitions"),
    "bad value": (["--set", "num.partitions=0"], "num.partitions"),
    "unknown role": (["--roles", "gateway,king"], "king"),
    "no role": (["--roles", ","], "nothing"),
    "no port": (["--grpc", "9090"], "--grpc takes HOST:PORT"),
    "no address of this machine": (["--grpc", "192.0.2.1:0"], "Cannot assign requested address"),
    "bad advertised address": (["--advertise", "here"], "--advertise takes HOST:PORT"),
    "advertised port 0": (["--advertise", "here:0"], "--advertise takes HOST:PORT"),
    "bad cluster id": (["--set", "cluster.id=not:legal"], "cluster.id"),
    "bad address for metrics": (["--metrics", "9100"], "--metrics takes HOST:PORT"),
    "no name of a machine to listen at": (["--kafka", "a..b:9092"], "--kafka takes HOST:PORT"),
    "no name of a machine for metrics": (["--metrics", f"{'x' * 64}:9100"], "--metrics takes HOST:PORT"),
    "no name of a machine for Redis": (["--redis", "redis://a..b"], "the host name is invalid"),
    "no Redis URL": (["--redis", "http://localhost"], "http://localhost"),
    "passwords without TLS": (["--set", "sasl.enabled.mechanisms=PLAIN"], "needs --tls-cert and --tls-key"),
    "share state in the logs of another cluster": (
        ["--log", "kafka://127.0.0.1:9092", "--set", "group.share.state.storage=log"],
        "group.share.state.storage=log needs logs of this cluster; with --log use coordinator.",
    ),
    "unknown SASL mechanism": (["--set", "sasl.enabled.mechanisms=GSSAPI"], "SCRAM-SHA-512"),
    "a first user without a password": (["--admin-user", "admin"], "--admin-password-file"),
    "no file of the password": (
        ["--admin-user", "admin", "--admin-password-file", "/no/such/file"],
        "--admin-password-file /no/such/file: No such file or directory.",
    ),
    "no folder of the ready file": (
        ["--ready-file", "/no/such/folder/ready.json"],
        "The ready file /no/such/folder/ready.json cannot be written: No such file or directory.",
    ),
    "no number of processes": (["--processes", "0"], "--processes takes auto, or a number from 1 to 64; not"),
    "too few ports for processes": (
        ["--processes", "3", "--kafka", "127.0.0.1:65534"],
        "--kafka needs the ports 65534 to 65536 for 3 processes.",
    ),
    "a folder as ready file": (["--ready-file", "/tmp"], "The ready file /tmp cannot be written: "),
}


@pytest.mark.timeout(300)
def test_invalid_options_are_reported(tmp_path: Path) -> None:
    cases = [("--data", str(tmp_path / "data"), *options) for options, _ in BAD_OPTIONS.values()]
    sentences = [sentence for _, sentence in BAD_OPTIONS.values()]
    for printed, sentence in zip(failures(cases, tmp_path), sentences, strict=True):
        assert sentence in printed
    assert not (tmp_path / "data").exists()


def test_a_listener_that_serves_anyone_is_logged(tmp_path: Path) -> None:
    serve = Serve(tmp_path, ["--data", str(tmp_path / "data")], "all", listen="0.0.0.0:0")
    serve.start()
    try:
        lines = [json.loads(line) for line in serve.log.splitlines()]
    finally:
        serve.stop()
    reasons = [line["reason"] for line in lines if line["event"] == "clients are not authenticated"]
    assert len(reasons) == 2
    assert "--grpc 0.0.0.0:0" in reasons[0]
    assert "--kafka 0.0.0.0:0" in reasons[1]


def test_opentelemetry_variables_are_checked_and_redacted(tmp_path: Path) -> None:
    variables = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1",
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization: Bearer s3cr3tKEY",
    }
    serving = Failing("--data", str(tmp_path / "data"), **variables)
    printing = Failing("--print-config", **variables)
    limit = Failing(
        "--data",
        str(tmp_path / "data"),
        OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:1",
        OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT="-5",
    )
    for failing in (serving, printing):
        message = failing.sentence()
        assert message.startswith("OTEL_EXPORTER_OTLP_HEADERS is invalid; it may be ")
        assert "s3cr3tKEY" not in message
    assert limit.sentence().startswith("OpenTelemetry rejects an OTEL_* variable: ")
    command = [sys.executable, "-m", "sharebroker_server.broker", "--print-config"]
    unknown = subprocess.run(
        command, capture_output=True, text=True, check=True, env=os.environ | {"OTEL_NOSUCH": "1"}
    )
    (line,) = unknown.stderr.splitlines()
    assert json.loads(line)["names"] == ["OTEL_NOSUCH"]


def test_settings_are_printed_without_secrets(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "sharebroker_server.broker",
        "--print-config",
        "--data",
        str(tmp_path / "data"),
    ]
    command += ["--redis", "redis://user:hunter2@here:1,there:2", "--set", "cluster.id=orders"]
    command += ["--metrics", "127.0.0.1:9100", "--processes", "3"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    facts = json.loads(output)
    assert "hunter2" not in output
    assert facts["redis"] == ["here:1", "there:2"]
    assert (facts["metrics"], facts["processes"]) == ("127.0.0.1:9100", 3)
    assert facts["properties"]["cluster.id"] == "orders"
    assert not (tmp_path / "data").exists()


def test_redis_url_can_be_given_outside_the_command_line(tmp_path: Path) -> None:
    with running("valkey", "--requirepass", "hush") as redis:
        serve = Serve(tmp_path, [])
        with patch.dict(os.environ, SHAREBROKER_REDIS=f"redis://:hush@127.0.0.1:{redis.port}"):
            serve.start()
        try:
            assert serve.process is not None
            assert b"hush" not in Path(f"/proc/{serve.process.pid}/cmdline").read_bytes()
        finally:
            assert serve.stop() == 0
        assert Failing(SHAREBROKER_REDIS=":hush@here").sentence().startswith("'***@here' is no Redis URL")


def test_sentinels_are_printed_without_secrets() -> None:
    command = [sys.executable, "-m", "sharebroker_server.broker", "--print-config"]
    command += ["--redis", "redis+sentinel://user:hunter2@here,there:2/mymaster"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "hunter2" not in output
    assert json.loads(output)["redis"] == ["redis+sentinel://here:26379,there:2/mymaster"]


def test_sentinels_without_a_primary_name_are_rejected() -> None:
    message = Failing("--redis", "redis+sentinel://:hush@here").sentence()
    assert message.startswith("'redis+sentinel://***@here' has to end with the name that sentinels have")


def test_used_ports_and_broken_folders_are_reported(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    (tmp_path / "spoilt").mkdir()
    (tmp_path / "spoilt" / "node.json").write_text("no identity")
    make_private(tmp_path / "spoilt")  # otherwise a log line precedes the sentence
    same = Failing("--data", str(tmp_path / "data"))
    port = Failing("--data", str(tmp_path / "other"), "--grpc", serve.address)
    file = Failing("--data", str(tmp_path / "file"))
    spoilt = Failing("--data", str(tmp_path / "spoilt"))
    assert same.sentence().endswith(f"data/valkey is in use by another process ({serve.facts['pid']})")
    assert port.sentence() == f"Cannot listen on {serve.address}: Address already in use."
    assert not (tmp_path / "other").exists()
    assert str(tmp_path / "file") in file.sentence()
    assert "node.json holds no node identity" in spoilt.sentence()


async def test_unsuitable_redis_is_reported(tmp_path: Path) -> None:
    ready = tmp_path / "ready.json"
    ready.write_text("of a process that died")
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        unused = reserved.getsockname()[1]
    away = Failing("--redis", f"redis://user:secret@127.0.0.1:{unused}", "--ready-file", str(ready))
    async with greeting(b"redis_version:6.2.7") as port:
        message = await asyncio.to_thread(Failing("--redis", f"redis://127.0.0.1:{port}").sentence)
        assert message == "Redis 6.2.7 is too old: 7.0 or newer is required"
    async with greeting(b"redis_version:7.2.4\r\nvalkey_version:7.2.5") as port:
        message = await asyncio.to_thread(Failing("--redis", f"redis://127.0.0.1:{port}").sentence)
        assert message == "Valkey 7.2.5 is too old: 8.0 or newer is required"
    message = await asyncio.to_thread(away.sentence)
    assert message == f"no Redis at 127.0.0.1:{unused}: Connection refused"
    assert not ready.exists()


@asynccontextmanager
async def greeting(info: bytes) -> AsyncIterator[int]:
    """Returns the port of a server that answers every command with this INFO text: old Redis versions are not
    available here.
    """
    body = b"# Server\r\n" + info + b"\r\n"

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 20):
            writer.write(b"$%d\r\n%s\r\n" % (len(body), body) * data.count(b"*"))
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


def test_wildcard_listener_advertises_the_host_name(serve: Serve, tmp_path: Path) -> None:
    beside = Serve(
        tmp_path,
        ["--roles", "gateway", "--redis", f"unix://{tmp_path}/data/valkey/redis.sock"],
        "x",
        "0.0.0.0:0",
    )
    beside.start()
    try:
        assert beside.address == f"{socket.gethostname()}:{beside.facts['port']}"
    finally:
        assert beside.stop() == 0


async def test_serve_drains_and_leaves_no_processes(serve: Serve, tmp_path: Path) -> None:
    redis_url = f"unix://{tmp_path}/data/valkey/redis.sock"
    assert responds(redis_url)
    children = _children(int(str(serve.facts["pid"])))
    assert children
    async with connected(serve.address) as client:
        topic, _ = await client.create()
        group_id = await client.group()
        waiting = asyncio.create_task(client.acquire(group_id, topic, 1, wait=30.0))
        published = await client.publish(topic, ["before"])
        assert len((await waiting).records) == 1
        code = await asyncio.to_thread(serve.stop)
        with pytest.raises(grpc.aio.AioRpcError):
            await client.publish(topic, ["after"], timeout=1.0)
    assert published == [(0, 0)]
    assert code == 0, serve.log
    assert not serve.ready_file.exists()
    assert not responds(redis_url)
    until(lambda: not [pid for pid in children if _alive(pid)])
    assert "Traceback" not in serve.log


async def test_connected_consumer_does_not_delay_shutdown(serve: Serve) -> None:
    process = serve.process
    assert process is not None
    async with connected(serve.address) as client:
        topic, _ = await client.create()
        group_id = await client.group()
        waiting = asyncio.create_task(client.acquire(group_id, topic, 1, wait=50.0, timeout=60.0))
        await client.create()  # comes back behind it on the same connection
        process.send_signal(signal.SIGINT)
        assert await asyncio.to_thread(process.wait, 20) == 0
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await waiting
        assert failure.value.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)


def _children(pid: int) -> list[int]:
    found = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    )
    return [int(word) for word in found.stdout.split()]


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
