"""Authentication at both listeners of one process and of four, with real clients."""

from __future__ import annotations

import asyncio
import base64
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError as AiokafkaError
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from grpc_health.v1 import health_pb2, health_pb2_grpc

from sharebroker import Admin, Producer, ShareConsumer
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import admin_pb2, share_pb2
from sharebroker_protocol.gateway.v1.admin_pb2_grpc import AdminServiceStub
from sharebroker_protocol.gateway.v1.share_pb2_grpc import ShareServiceStub
from sharebroker_server.security.authentication.sasl import MECHANISMS, failed
from tests.support.client import rejection, unique
from tests.support.kafka_tools import as_properties, needs_kafka, run_tool
from tests.testkit.brokers import Cluster, four_processes, one_process
from tests.testkit.secured import ADMIN, PASSWORD, Secured, secured
from tests.testkit.waiting import until

pytestmark = pytest.mark.xdist_group("authentication")  # its tests share a cluster

SECONDS = 30.0
STARTS = {
    "one process": one_process,
    "four processes": four_processes,
    "two processes of one command": partial(one_process, "--processes=2"),
}


@pytest.fixture(scope="module", params=list(STARTS.values()), ids=list(STARTS))
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    start: Callable[..., AbstractContextManager[Cluster]] = request.param
    with secured(start, tmp_path_factory.mktemp("sasl")) as made:
        yield made


def accepted(settings: dict[str, str | int | float | bool]) -> bool:
    """Returns whether librdkafka connects with these settings; it retries a failed authentication."""
    try:
        AdminClient(settings).list_topics(timeout=3.0)
    except KafkaException:
        return False
    return True


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_authenticates(place: Secured, mechanism: str) -> None:
    assert accepted(place.librdkafka(mechanism))
    assert not accepted(place.librdkafka(mechanism, password="wrong-secret"))


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_aiokafka_authenticates(place: Secured, mechanism: str) -> None:
    def client(password: str) -> Any:
        return AIOKafkaAdminClient(
            bootstrap_servers=place.cluster.kafka,
            security_protocol="SASL_SSL",
            ssl_context=ssl.create_default_context(cafile=str(place.authority.file)),
            sasl_mechanism=mechanism,
            sasl_plain_username=ADMIN,
            sasl_plain_password=password,
        )

    admin = client(PASSWORD)
    await admin.start()
    assert await admin.list_topics() is not None
    await admin.close()
    rejected = client("wrong-secret")
    with pytest.raises(AiokafkaError):
        await rejected.start()
    await rejected.close()


def test_a_kafka_client_without_sasl_is_not_served(place: Secured) -> None:
    settings = place.librdkafka("PLAIN") | {"security.protocol": "ssl"}
    del settings["sasl.mechanism"], settings["sasl.username"], settings["sasl.password"]
    assert not accepted(settings)


def test_python_client_with_a_user(place: Secured) -> None:
    topic = unique("topic")
    with Admin(place.address()) as admin:
        admin.create_topic(topic, 1)
        admin.alter_group_configs(topic, {"share.auto.offset.reset": "earliest"})
    with Producer(place.address()) as producer, ShareConsumer(place.address(), topic, [topic]) as consumer:
        producer.send(topic, b"authenticated").result(SECONDS)
        (record,) = consumer.poll(timeout=SECONDS)
        record.accept()
        (result,) = consumer.commit()
    assert (record.value, result.error) == (b"authenticated", None)


def test_command_line_with_the_password_in_a_variable(
    place: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHAREBROKER_PASSWORD", PASSWORD)
    server = f"tls://{place.cluster.address}?ca={place.authority.file}&user={ADMIN}"
    command = [str(Path(sys.executable).with_name("sharebroker")), "topics", "list", "--server", server]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr


def test_command_line_with_user_and_password_file(place: Secured, tmp_path: Path) -> None:
    def listed(password_file: Path) -> int:
        command = [str(Path(sys.executable).with_name("sharebroker")), "--user", ADMIN]
        command += ["--password-file", str(password_file), "topics", "list", "--server", place.address(None)]
        return subprocess.run(command, capture_output=True, timeout=SECONDS, check=False).returncode

    (tmp_path / "wrong").write_text("wrong-secret")
    assert listed(place.password_file) == 0
    assert listed(tmp_path / "wrong") == 1


@pytest.mark.parametrize("user", [None, "stranger"])
def test_grpc_calls_without_valid_credentials_look_alike(place: Secured, user: str | None) -> None:
    with Admin(place.address(user)) as admin, pytest.raises(KafkaError) as caught:
        admin.list_topics()
    assert (caught.value.code, caught.value.message) == (failed().code, failed().message)


def channel(place: Secured) -> grpc.aio.Channel:
    """Returns a channel without credentials."""
    credentials = grpc.ssl_channel_credentials(place.authority.file.read_bytes())
    return grpc.aio.secure_channel(place.cluster.address, credentials)


async def test_the_status_of_a_rejected_call_is_unauthenticated(place: Secured) -> None:
    async with channel(place) as open_channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await AdminServiceStub(open_channel).Metadata(admin_pb2.MetadataRequest(), timeout=SECONDS)
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_a_stream_is_rejected_before_its_first_message(place: Secured) -> None:
    async def endless() -> AsyncIterator[share_pb2.ConsumeRequest]:
        await asyncio.Event().wait()
        yield share_pb2.ConsumeRequest()

    async with channel(place) as open_channel:
        stub = ShareServiceStub(open_channel)
        error = await rejection(stub.Consume(endless(), timeout=SECONDS).read())
    assert error.code is ErrorCode.SASL_AUTHENTICATION_FAILED


async def test_an_undecodable_request_is_not_parsed(place: Secured) -> None:
    async with channel(place) as open_channel:
        raw: Any = open_channel
        method = "/sharebroker.gateway.v1.AdminService/CreateTopics"
        error = await rejection(raw.unary_unary(method)(b"\xff\xff\xff", timeout=SECONDS))
    assert error.code is ErrorCode.SASL_AUTHENTICATION_FAILED


async def test_health_checks_need_no_credentials(place: Secured) -> None:
    async with channel(place) as open_channel:
        stub = health_pb2_grpc.HealthStub(open_channel)
        answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=SECONDS)
    assert answer.status == health_pb2.HealthCheckResponse.SERVING


@needs_kafka
def test_kafkas_tool_manages_users(place: Secured, tmp_path: Path) -> None:
    name, password = unique("user"), "scr4m-secret"
    properties = tmp_path / "client.properties"
    properties.write_text(as_properties(place.java("SCRAM-SHA-512")))

    def configs(*arguments: str) -> str:
        at = ("--bootstrap-server", place.cluster.kafka, "--command-config", str(properties))
        entity = ("--entity-type", "users", "--entity-name", name)
        return run_tool("kafka.admin.ConfigCommand", *at, *entity, *arguments).checked().out

    configs("--alter", "--add-config", f"SCRAM-SHA-256=[password={password}]")
    assert "SCRAM-SHA-256=iterations=4096" in configs("--describe")
    assert accepted(place.librdkafka("SCRAM-SHA-256", name, password))
    assert accepted(place.librdkafka("PLAIN", name, password))
    assert not accepted(place.librdkafka("SCRAM-SHA-512", name, password))
    configs("--alter", "--add-config", f"SCRAM-SHA-512=[iterations=8192,password={password}]")
    assert accepted(place.librdkafka("SCRAM-SHA-512", name, password))
    configs("--alter", "--delete-config", "SCRAM-SHA-256")
    assert not accepted(place.librdkafka("SCRAM-SHA-256", name, password))


def test_the_first_user_keeps_a_changed_password(place: Secured, tmp_path: Path) -> None:
    """Last of the module: it restarts all processes."""
    changed = tmp_path / "password"
    changed.write_text("another-secret")
    with Admin(place.address()) as admin:
        admin.set_password(ADMIN, "another-secret")
    for process in place.cluster.processes:
        process.restart()
    until(lambda: _lists(place.address(password_file=changed)), SECONDS)
    with pytest.raises(KafkaError), Admin(place.address()) as admin:
        admin.list_topics()


def _lists(address: str) -> bool:
    try:
        with Admin(address) as admin:
            admin.list_topics()
    except KafkaError:
        return False
    return True


def test_no_secret_is_in_any_log(place: Secured) -> None:
    """Last of the module: it reads what all tests before it caused."""
    header = base64.b64encode(f"{ADMIN}:{PASSWORD}".encode()).decode()
    secrets = (PASSWORD, header, "wrong-secret", "scr4m-secret", "another-secret")
    assert place.logs
    assert not [secret for secret in secrets if secret in place.logs]
