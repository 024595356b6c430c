"""Clients with access tokens at both listeners: librdkafka, Java, gRPC; sessions and streams end too."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from time import time
from typing import Any

import grpc
import pytest
from confluent_kafka import Producer as KafkaProducer
from confluent_kafka.admin import AdminClient, NewTopic

from sharebroker import Address, Admin, Producer, ShareConsumer, aio
from sharebroker.aio import publishing, stream
from sharebroker.aio.connection import RunningStream
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import admin_pb2, share_pb2
from sharebroker_protocol.gateway.v1.admin_pb2_grpc import AdminServiceStub
from sharebroker_protocol.gateway.v1.share_pb2_grpc import ShareServiceStub
from sharebroker_server.security.user_access import TOKEN_GRACE
from tests.support.client import rejection, unique
from tests.support.kafka_tools import as_properties, needs_kafka, run_tool
from tests.support.librdkafka_statistics import Disconnects
from tests.testkit.brokers import one_process
from tests.testkit.issuer import AUDIENCE, ISSUER, Issuer, jwk, jwk_set, token
from tests.testkit.secured import Secured, secured
from tests.testkit.waiting import until

pytestmark = pytest.mark.xdist_group("access tokens")  # its tests share a cluster

SECONDS = 30.0
SKEW = 58


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with Issuer(jwk_set(jwk("RS256", "1"), jwk("ES256", "2"))).serving() as made:
        yield made


@pytest.fixture(scope="module")
def place(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    options = (
        "--set=sasl.enabled.mechanisms=OAUTHBEARER,SCRAM-SHA-256",
        f"--set=sasl.oauthbearer.jwks.endpoint.url={issuer.url}",
        f"--set=sasl.oauthbearer.expected.issuer={ISSUER}",
        f"--set=sasl.oauthbearer.expected.audience={AUDIENCE}",
        f"--set=sasl.oauthbearer.clock.skew.seconds={SKEW}",
    )
    with secured(one_process, tmp_path_factory.mktemp("tokens"), *options) as made:
        yield made


def librdkafka(place: Secured, make: Callable[[], str], lifetime: float = 3600.0) -> dict[str, Any]:
    """Returns librdkafka's settings; it calls `make` for each token."""
    settings: dict[str, Any] = place.librdkafka("OAUTHBEARER")
    del settings["sasl.username"], settings["sasl.password"]
    return settings | {"oauth_cb": lambda _: (make(), time() + lifetime)}


@pytest.mark.parametrize(("algorithm", "key_id"), [("RS256", "1"), ("ES256", "2")])
def test_librdkafka_authenticates(place: Secured, algorithm: str, key_id: str) -> None:
    admin = AdminClient(librdkafka(place, lambda: token("alice", algorithm, key_id=key_id)))
    admin.poll(0)
    topic = unique("topic")
    (created,) = admin.create_topics([NewTopic(topic, 1)]).values()
    created.result(SECONDS)
    assert topic in admin.list_topics(timeout=SECONDS).topics


def test_librdkafka_with_a_token_for_another_audience_is_rejected(place: Secured) -> None:
    errors: list[str] = []
    settings = librdkafka(place, lambda: token(aud="elsewhere"))
    client = KafkaProducer(settings | {"error_cb": lambda error: errors.append(error.str())})
    until(lambda: client.poll(0.1) or any("Authentication failed" in error for error in errors), SECONDS)
    assert not [error for error in errors if "audience" in error]


def test_librdkafka_renews_its_token_before_the_session_ends(place: Secured) -> None:
    """A connection outlives its token. On a busy machine librdkafka is late with some, and connects again."""
    made: list[str] = []

    def make() -> str:
        made.append(token(lifetime=3.0))
        return made[-1]

    admin = AdminClient(librdkafka(place, token))
    admin.poll(0)
    topic = unique("topic")
    (created,) = admin.create_topics([NewTopic(topic, 1)]).values()
    created.result(SECONDS)
    delivered: list[object] = []
    disconnects = Disconnects()
    producer = KafkaProducer(librdkafka(place, make, lifetime=3.0) | disconnects.settings)
    at_disconnect = (0, 0)

    def renewed() -> bool:
        nonlocal at_disconnect
        producer.produce(topic, b"record", on_delivery=lambda error, _: delivered.append(error))
        producer.poll(0.1)
        if disconnects.count > at_disconnect[0]:
            at_disconnect = (disconnects.count, len(made))
        return len(made) > at_disconnect[1] + 3 and len(delivered) > 10

    until(renewed, 2 * SECONDS)
    assert producer.flush(SECONDS) == 0
    assert not [error for error in delivered if error is not None]


@needs_kafka
def test_kafkas_tools_authenticate(place: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text(token("alice", scope="any"))
    url = (tmp_path / "token").as_uri()
    allowed = "-Dorg.apache.kafka.sasl.oauthbearer.allowed"
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"{allowed}.urls={url} {allowed}.files={tmp_path / 'token'}")
    oauth = "org.apache.kafka.common.security.oauthbearer."
    properties = tmp_path / "client.properties"
    properties.write_text(
        as_properties(
            place.java("OAUTHBEARER")
            | {
                "sasl.jaas.config": f"{oauth}OAuthBearerLoginModule required ;",
                "sasl.login.callback.handler.class": f"{oauth}OAuthBearerLoginCallbackHandler",
                "sasl.oauthbearer.token.endpoint.url": url,
            }
        )
    )
    at = ("--bootstrap-server", place.cluster.kafka, "--command-config", str(properties))
    topic = unique("topic")
    run_tool("org.apache.kafka.tools.TopicCommand", *at, "--create", "--topic", topic).checked()
    assert topic in run_tool("org.apache.kafka.tools.TopicCommand", *at, "--list").checked().lines


def channel(place: Secured) -> grpc.aio.Channel:
    """Returns a channel without credentials."""
    credentials = grpc.ssl_channel_credentials(place.authority.file.read_bytes())
    return grpc.aio.secure_channel(place.cluster.address, credentials)


def bearer(text: str) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {text}"),)


async def test_grpc_calls_authenticate(place: Secured) -> None:
    async with channel(place) as open_channel:
        admin = AdminServiceStub(open_channel)
        request = admin_pb2.MetadataRequest()
        await admin.Metadata(request, metadata=bearer(token()), timeout=SECONDS)
        call = admin.Metadata(request, metadata=bearer(token(iss="https://else.example")), timeout=SECONDS)
        error = await rejection(call)
    assert error.code is ErrorCode.SASL_AUTHENTICATION_FAILED


async def test_a_stream_ends_after_its_token(place: Secured) -> None:
    async def waiting() -> AsyncIterator[share_pb2.ConsumeRequest]:
        subscribe = share_pb2.ConsumeRequest.Subscribe(group_id=unique("group"), topics=[unique("topic")])
        yield share_pb2.ConsumeRequest(subscribe=subscribe)
        await asyncio.Event().wait()

    # A token within the permitted difference of clocks: the grace of its stream is nearly over.
    left = TOKEN_GRACE - SKEW + 1.0
    nearly_over = token(exp=time() + left - TOKEN_GRACE)
    async with channel(place) as open_channel:
        call = ShareServiceStub(open_channel).Consume(
            waiting(), metadata=bearer(nearly_over), timeout=left + 30
        )
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            async for _ in call:
                pass
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


class Provider:
    """Returns a new token of a lifetime for each call."""

    def __init__(self, lifetime: float = 3600.0) -> None:
        self._lifetime = lifetime
        self.made = 0

    def __call__(self) -> str:
        self.made += 1
        return token(lifetime=self._lifetime)

    async def coroutine(self) -> str:
        await asyncio.sleep(0)
        return self()


def tls(place: Secured) -> Address:
    return Address.parse(place.address(None))


def token_address(place: Secured, file: Path) -> str:
    return f"{place.address(None)}&token_file={file}"


@pytest.mark.parametrize("as_coroutine", [False, True])
def test_python_clients_call_a_token_provider(place: Secured, as_coroutine: bool) -> None:
    provider = Provider()
    address = tls(place).with_token(provider.coroutine if as_coroutine else provider)
    topic = unique("topic")
    with Admin(address) as admin:
        admin.create_topic(topic, 1)
        admin.alter_group_configs(topic, {"share.auto.offset.reset": "earliest"})
        admin.list_topics()
        assert provider.made == 1, "a token is used until it is about to expire"
    with Producer(address) as producer, ShareConsumer(address, topic, [topic]) as consumer:
        producer.publish(topic, b"one")
        (record,) = consumer.poll(SECONDS)
        record.accept()
        (result,) = consumer.commit()
    assert (record.value, result.error) == (b"one", None)


def test_python_client_reads_its_token_file_for_each_call(place: Secured, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(token(aud="elsewhere"))
    with Admin(token_address(place, file)) as admin:
        with pytest.raises(KafkaError) as caught:
            admin.list_topics()
        assert caught.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
        file.write_text(token())
        admin.list_topics()
        file.unlink()
        with pytest.raises(KafkaError, match="No such file") as caught:
            admin.list_topics()
        assert caught.value.retriable


async def test_python_clients_continue_after_their_token(
    place: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[RunningStream] = []

    class Counted(RunningStream):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            opened.append(self)

    for module in (publishing, stream):
        monkeypatch.setattr(module, "RunningStream", Counted)
    topic = unique("topic")
    async with aio.Admin(tls(place).with_token(token)) as admin:
        await admin.create_topic(topic, 1)
        await admin.alter_group_configs(topic, {"share.auto.offset.reset": "earliest"})
    # Expired, but accepted because clocks may differ: the server ends each stream after three seconds.
    address = tls(place).with_token(lambda: token(lifetime=1.0 - SKEW))
    published, received = 0, set[bytes | None]()
    async with (
        aio.Producer(address) as producer,
        aio.ShareConsumer(address, topic, [topic]) as consumer,
        asyncio.timeout(2 * SECONDS),
    ):
        while len(opened) < 6 or len(received) < published:  # each of two streams ends twice
            if len(opened) < 6:
                await producer.publish(topic, b"%d" % published)
                published += 1
            for record in await consumer.poll(1.0):
                received.add(record.value)
                record.accept()
    assert received == {b"%d" % number for number in range(published)}


@pytest.mark.parametrize("variable", [False, True])
def test_command_line_with_a_token_file(place: Secured, tmp_path: Path, variable: bool) -> None:
    file = tmp_path / "token"
    file.write_text(token())
    command = [str(Path(sys.executable).with_name("sharebroker"))]
    command += [] if variable else ["--token-file", str(file)]
    command += ["topics", "list", "--server", place.address(None)]
    environment = os.environ | ({"SHAREBROKER_TOKEN_FILE": str(file)} if variable else {})
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=SECONDS, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr


def test_no_token_is_in_any_log(place: Secured, issuer: Issuer) -> None:
    """Last of the module: it reads what all tests before it caused."""
    assert issuer.requests
    assert place.logs
    assert "eyJ" not in place.logs  # each token begins with an encoded object
