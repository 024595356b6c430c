"""`serve --processes`: a broker, or their supervisor, is killed under load, or stops."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import grpc
import pytest

from sharebroker_protocol.gateway.v1 import admin_pb2 as pb
from sharebroker_protocol.gateway.v1.admin_pb2_grpc import AdminServiceStub
from tests.support.client import TIMEOUT, connected
from tests.support.traffic import Traffic
from tests.testkit.brokers import START_SECONDS, Serve, lists_brokers
from tests.testkit.servers import free_port, responds
from tests.testkit.waiting import eventually, until

PROCESSES = 2
SERVING = '"event":"serving"'
EXITED = "broker exited; restarting"
pytestmark = pytest.mark.xdist_group("processes killed")


@contextmanager
def several(folder: Path) -> Iterator[Serve]:
    """Runs two brokers of one command; kills what is left of them at the end."""
    options = ["--data", str(folder / "data"), "--processes", str(PROCESSES), "--log-format", "json"]
    serve = Serve(folder, options, "several")
    serve.start()
    try:
        until(lambda: lists_brokers(serve.address, PROCESSES), START_SECONDS)
        yield serve
    finally:
        serve.kill()


@asynccontextmanager
async def under_load(serve: Serve) -> AsyncIterator[Traffic]:
    """Publishes and consumes during the block, after which every record must be accepted once."""
    async with connected(serve.address) as client:
        topic, topic_id = await client.create(4)
        traffic = Traffic(serve.address, topic, await client.group())
        async with traffic.flowing() as books:
            yield traffic
            await traffic.drain(client, topic_id)
        assert not books.broken


def brokers(serve: Serve) -> list[int]:
    """Returns the process ids of the brokers."""
    assert serve.process is not None
    found = [pid for pid, command in _children(serve.process.pid).items() if "processes.child" in command]
    assert len(found) == PROCESSES
    return found


def _children(parent: int) -> dict[int, str]:
    command = ["ps", "-ww", "-o", "pid=", "-o", "args=", "--ppid", str(parent)]
    found = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return {int(pid): rest for pid, rest in (line.split(maxsplit=1) for line in found.splitlines())}


def ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def called(address: str) -> int:
    """Calls the shared port on a new connection; returns the number of brokers in the response."""
    with grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
        metadata = AdminServiceStub(channel).Metadata(pb.MetadataRequest(), timeout=TIMEOUT)
    return len(metadata.nodes)


def replaced(serve: Serve, pid: int) -> None:
    """Kills a broker; calls the shared port until another process serves in its place."""
    exited, served = serve.log.count(EXITED), serve.log.count(SERVING)
    os.kill(pid, signal.SIGKILL)
    until(lambda: serve.log.count(EXITED) > exited)  # until then its sockets may be open
    until(lambda: called(serve.address) and serve.log.count(SERVING) > served, START_SECONDS)


async def test_the_shared_port_serves_until_a_killed_broker_returns(tmp_path: Path) -> None:
    with several(tmp_path) as serve:
        async with under_load(serve) as traffic:
            for pid in brokers(serve):
                await asyncio.to_thread(replaced, serve, pid)
                await traffic.moves()
        assert serve.log.count(EXITED) == PROCESSES
        assert serve.stop() == 0


async def test_brokers_that_stop_under_load_lose_nothing(tmp_path: Path) -> None:
    with several(tmp_path) as serve:
        async with under_load(serve) as traffic:
            stopped = brokers(serve)
            assert await asyncio.to_thread(serve.stop) == 0
            assert all(map(ended, stopped))
            assert not serve.ready_file.exists()
            assert not responds(f"unix://{tmp_path}/data/valkey/redis.sock")
            await asyncio.to_thread(serve.start)
            await traffic.moves()
        assert "killing" not in serve.log
        assert "Traceback" not in serve.log


async def test_a_killed_supervisor_leaves_nothing_and_loses_nothing(tmp_path: Path) -> None:
    with several(tmp_path) as serve:
        async with under_load(serve) as traffic:
            assert serve.process is not None
            children = list(_children(serve.process.pid))
            assert len(children) == PROCESSES + 1
            await asyncio.to_thread(serve.kill)
            await eventually(lambda: all(map(ended, children)))
            await asyncio.to_thread(serve.start)
            await traffic.moves()


async def test_brokers_recover_from_a_killed_embedded_valkey(tmp_path: Path) -> None:
    with several(tmp_path) as serve:
        async with under_load(serve) as traffic:
            assert serve.process is not None
            (valkey,) = set(_children(serve.process.pid)) - set(brokers(serve))
            os.kill(valkey, signal.SIGKILL)
            await traffic.moves()
        assert EXITED not in serve.log
        assert serve.stop() == 0


def test_a_second_signal_ends_brokers_that_do_not_stop(tmp_path: Path) -> None:
    with several(tmp_path) as serve:
        assert serve.process is not None
        frozen = brokers(serve)
        for pid in frozen:
            os.kill(pid, signal.SIGSTOP)
        serve.process.send_signal(signal.SIGTERM)
        until(lambda: '"stopping"' in serve.log)
        serve.process.send_signal(signal.SIGINT)
        assert serve.process.wait(TIMEOUT) == 0
        assert serve.log.count("broker still runs; killing it") == PROCESSES
        assert all(map(ended, frozen))


def test_a_taken_port_of_one_broker_ends_the_command(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        options = ["--data", str(tmp_path / "data"), "--processes", "2", "--kafka", f"127.0.0.1:{port - 1}"]
        serve = Serve(tmp_path, options)
        serve.launch()
        assert serve.process is not None
        assert serve.process.wait(START_SECONDS) == 2
    sentence = (
        f"sharebroker serve: Kafka clients cannot be served on 127.0.0.1:{port}: Address already in use."
    )
    assert serve.log.splitlines()[-1].startswith(sentence)
    assert not serve.ready_file.exists()
    assert not responds(f"unix://{tmp_path}/data/valkey/redis.sock")


def test_the_ports_for_kafka_clients_are_in_sequence(tmp_path: Path) -> None:
    port = free_port()
    options = ["--data", str(tmp_path / "data"), "--processes", "2", "--kafka", f"127.0.0.1:{port}"]
    serve = Serve(tmp_path, options)
    serve.start()
    try:
        assert serve.facts["kafka"] == f"127.0.0.1:{port},127.0.0.1:{port + 1}"
    finally:
        assert serve.stop() == 0
