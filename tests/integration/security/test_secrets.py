"""No secret is in logs, traces, metrics, process lists, environments of children, errors or printed settings.

One server, at log level debug, with every mechanism: clients succeed and fail at both listeners and manage
users and ACLs. Then all that the server, the command line and the clients wrote is searched.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
import os
import secrets
import ssl
import subprocess
import sys
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch
from urllib.request import urlopen

import grpc
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from sharebroker import Acl, AclSelection, Address, Admin, KafkaError, Producer
from sharebroker_protocol.gateway.v1 import admin_pb2
from sharebroker_protocol.gateway.v1.admin_pb2_grpc import AdminServiceStub
from sharebroker_server.config.broker import STANDARD_AUTHORIZER
from sharebroker_server.kafka_wire.messages import AlterUserScramCredentialsRequest
from sharebroker_server.security.authentication.scram import ScramMechanism, credential_of, salted_password
from tests.support.client import unique
from tests.support.kafka_client import connected
from tests.support.otlp import Collector, collecting
from tests.testkit.brokers import one_process
from tests.testkit.issuer import AUDIENCE, ISSUER, Issuer, jwk, jwk_set, token
from tests.testkit.sasl import plain
from tests.testkit.secured import ADMIN, PASSWORD, Secured, secured
from tests.testkit.waiting import until

pytestmark = [pytest.mark.servers, pytest.mark.xdist_group("secrets")]
SECONDS: Final = 30.0
SHAREBROKER: Final = str(Path(sys.executable).with_name("sharebroker"))
ITERATIONS: Final = 4096

PLACES: Final = (
    "log of the server",
    "audit log",
    "log of clients",
    "errors of clients",
    "output of commands",
    "metrics",
    "traces",
    "command lines",
    "environments of children",
    "printed settings",
    "doctor",
)


@dataclass
class Secrets:
    """Secrets by name. `found_in` returns the names of those that a text contains in any common encoding."""

    values: dict[str, bytes] = field(default_factory=dict)

    def add(self, name: str, value: str | bytes) -> None:
        self.values[name] = value.encode() if isinstance(value, str) else value

    def found_in(self, text: bytes) -> list[str]:
        lowered = text.lower()
        return [
            name
            for name, value in self.values.items()
            if any(form in text for form in _forms(value)) or value.hex().encode() in lowered
        ]


def _forms(value: bytes) -> set[bytes]:
    """Returns a secret as it is, in base64, in JSON, in Python's form and in URLs."""
    text = value.decode("latin-1")
    return {
        value,
        *(encode(value).rstrip(b"=") for encode in (base64.b64encode, base64.urlsafe_b64encode)),
        json.dumps(text)[1:-1].encode(),
        repr(value)[2:-1].encode(),
        urllib.parse.quote(value).encode(),
    }


@dataclass
class Scene:
    """A server, and all that was written; each secret is added before it is used."""

    place: Secured
    folder: Path
    collector: Collector
    options: list[str]
    hidden: Secrets = field(default_factory=Secrets)
    written: dict[str, bytes] = field(default_factory=lambda: dict.fromkeys(PLACES, b""))

    def wrote(self, where: str, text: str | bytes) -> None:
        self.written[where] += text.encode() if isinstance(text, str) else text

    def failing(self, act: Callable[[], object]) -> None:
        """Runs what must fail, and stores the error."""
        with pytest.raises((KafkaError, KafkaException, grpc.RpcError)) as caught:
            act()
        self.wrote("errors of clients", f"{caught.value!r} {caught.value} {vars(caught.value)}")

    def command(self, *words: str, into: str = "output of commands", **environment: str) -> int:
        done = subprocess.run(
            [SHAREBROKER, *words],
            capture_output=True,
            check=False,
            timeout=60,
            env=os.environ | {"GRPC_VERBOSITY": "DEBUG"} | environment,
        )
        self.wrote(into, done.stdout + done.stderr)
        return done.returncode

    def file(self, name: str, content: str) -> Path:
        path = self.folder / name
        path.write_text(content)
        return path


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("secrets")
    hidden = Secrets()
    cluster_secret, exporter = secrets.token_hex(32), secrets.token_hex(16)
    hidden.add("cluster secret", cluster_secret)
    hidden.add("header of the exporter", exporter)
    (folder / "cluster-secret").write_text(cluster_secret)
    with contextlib.ExitStack() as stack:
        issuer = stack.enter_context(Issuer(jwk_set(jwk("RS256", "1"))).serving())
        collector = stack.enter_context(collecting())
        options = [
            "--set=sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            f"--set=sasl.oauthbearer.jwks.endpoint.url={issuer.url}",
            f"--set=sasl.oauthbearer.expected.issuer={ISSUER}",
            f"--set=sasl.oauthbearer.expected.audience={AUDIENCE}",
            f"--set=authorizer.class.name={STANDARD_AUTHORIZER}",
            "--set=log.level=debug",
            f"--cluster-secret-file={folder / 'cluster-secret'}",
            f"--audit-file={folder / 'audit.log'}",
            "--metrics=127.0.0.1:0",
        ]
        traced = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer%20{exporter}",
            "OTEL_BSP_SCHEDULE_DELAY": "200",
            "OTEL_TRACES_SAMPLER": "always_on",
        }
        with patch.dict(os.environ, traced):
            place = stack.enter_context(secured(one_process, folder / "place", *options))
        key = place.authority.folder / "broker.key"
        hidden.add("private key", key.read_text().splitlines()[1])
        hidden.add("password of the first user", PASSWORD)
        hidden.add("header of the first user", base64.b64encode(f"{ADMIN}:{PASSWORD}".encode()))
        yield Scene(place, folder, collector, options, hidden)


@pytest.fixture(scope="module")
def written(scene: Scene) -> Mapping[str, bytes]:
    """Lets clients succeed and fail, and returns what was written where."""
    records: list[str] = []

    class Keeping(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(self.format(record))

    handler, root = Keeping(), logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        manage_users(scene)
        authenticate_over_grpc(scene)
        authenticate_over_kafka(scene)
        asyncio.run(send_raw_requests(scene))
        run_commands(scene)
    finally:
        root.setLevel(level)
        root.removeHandler(handler)
    scene.wrote("log of clients", "\n".join((*records, "end")))
    collect(scene)
    return scene.written


def manage_users(scene: Scene) -> None:
    """Creates and deletes users and ACLs, with the command line, the client and Kafka's API."""
    scene.hidden.add("password of alice", "the p4ssword of alice")
    scene.hidden.add("password of bob", 'b0bs passw0rd "quoted"')
    with Admin(scene.place.address()) as admin:
        admin.set_password("alice", "the p4ssword of alice")
        admin.create_acls([Acl("User:alice", "all", "topic", "*"), Acl("User:bob", "read", "group", "g")])
        scene.wrote("output of commands", f"{admin.list_users()} {admin.list_acls()}")
        scene.failing(lambda: admin.set_password("", "the p4ssword of alice"))
        scene.failing(lambda: admin.set_password("x" * 1000, "the p4ssword of alice"))
        admin.delete_acls(AclSelection(principal="User:bob"))
        admin.create_topic("secrets", 1)
    file = scene.file("bob", 'b0bs passw0rd "quoted"\n')
    server = ("--server", scene.place.address())
    assert scene.command("users", "add", "bob", f"--password-file={file}", *server) == 0
    assert scene.command("users", "list", "--json", *server) == 0


def authenticate_over_grpc(scene: Scene) -> None:
    """Calls with valid and invalid passwords and tokens, also malformed ones."""
    place, tls = scene.place, Address.parse(scene.place.address(None))
    scene.hidden.add("wrong password", "a wr0ng password")
    for user in ("alice", "unknown"):
        address = tls.with_password(user, "a wr0ng password")
        with Admin(address) as admin:
            scene.failing(admin.list_topics)
        scene.wrote("errors of clients", f"{address} {address!r} {admin!r}")
    good, expired, foreign = token("User"), token(exp=1.0), token(aud="elsewhere")
    for name, value in {"token": good, "expired token": expired, "token of another": foreign}.items():
        scene.hidden.add(name, value)
        scene.hidden.add(f"signature of the {name}", value.rpartition(".")[2])
    with Admin(tls.with_token(lambda: good)) as admin:
        scene.failing(admin.list_acls)  # authenticated, and not permitted
        admin.list_topics()
    for rejected in (expired, foreign):
        with Admin(tls.with_token(lambda value=rejected: value)) as admin:  # type: ignore[misc]
            scene.failing(admin.list_topics)
    with Producer(tls.with_password("alice", "the p4ssword of alice")) as producer:
        producer.publish("secrets", b"record", headers=[("traceparent", b"00-%032x-%016x-01" % (1, 1))])
    credentials = grpc.ssl_channel_credentials(place.authority.file.read_bytes())
    scene.hidden.add("malformed header", "mAlf0rmed-header")
    with grpc.secure_channel(place.cluster.address, credentials) as channel:
        for header in ("Basic mAlf0rmed-header", "Bearer mAlf0rmed-header!", "Digest mAlf0rmed-header"):
            metadata = (("authorization", header),)
            call = AdminServiceStub(channel).Metadata
            request = admin_pb2.MetadataRequest()
            scene.failing(lambda: call(request, metadata=metadata, timeout=SECONDS))  # noqa: B023 - runs at once


def authenticate_over_kafka(scene: Scene) -> None:
    """Logs in with librdkafka and each mechanism, then with raw requests, valid and not."""
    place, logger = scene.place, logging.getLogger("librdkafka")
    said: list[str] = []

    def connect(settings: Mapping[str, Any]) -> None:
        callback: Any = lambda error: said.append(str(error))  # noqa: E731
        client = AdminClient({**settings, "log_level": "7", "error_cb": callback}, logger=logger)
        client.poll(0)
        client.list_topics(timeout=3.0)

    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        connect(place.librdkafka(mechanism))
        scene.failing(lambda: connect(place.librdkafka(mechanism, "alice", "a wr0ng password")))  # noqa: B023
    settings = place.librdkafka("OAUTHBEARER")
    del settings["sasl.username"], settings["sasl.password"]
    later = 4_000_000_000.0
    connect(settings | {"oauth_cb": lambda _: (token("User"), later)})
    bad = token(aud="elsewhere", jti="kafka")
    scene.hidden.add("token of another on the Kafka listener", bad)
    scene.failing(lambda: connect(settings | {"oauth_cb": lambda _: (bad, later)}))
    scene.wrote("errors of clients", "\n".join(said))


async def send_raw_requests(scene: Scene) -> None:
    """Sends malformed tokens, and credentials that are accepted and that are not."""
    context = ssl.create_default_context(cafile=scene.place.authority.file)
    salt, salted = secrets.token_bytes(24), b""
    salted = salted_password(ScramMechanism.SCRAM_SHA_256, "carols passw0rd", salt, ITERATIONS)
    credential = credential_of(ScramMechanism.SCRAM_SHA_256, salted, salt, ITERATIONS)
    scene.hidden.add("password of carol", "carols passw0rd")
    scene.hidden.add("salted password", salted)
    scene.hidden.add("stored key", credential.stored_key)
    scene.hidden.add("server key", credential.server_key)
    upsert = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
    async with connected(scene.place.cluster.kafka, tls=context) as client:
        await client.ask(17, 1, mechanism="PLAIN")
        rejected = await client.ask(36, 2, auth_bytes=b"\0alice\0a wr0ng password\0more")
        scene.wrote("errors of clients", f"{rejected}")
    async with connected(scene.place.cluster.kafka, tls=context) as client:
        await client.ask(17, 1, mechanism="PLAIN")
        assert (await client.ask(36, 2, auth_bytes=plain(ADMIN, PASSWORD))).error_code == 0
        for iterations in (ITERATIONS, 1):
            wanted = upsert(
                name="carol", mechanism=1, iterations=iterations, salt=salt, salted_password=salted
            )
            answer = await client.ask(51, 0, deletions=[], upsertions=[wanted])
            scene.wrote("errors of clients", f"{answer}")
        scene.wrote("errors of clients", f"{await client.ask(50, 0, users=None)}")
        client.send(51, 0, deletions=[], upsertions=[wanted])
    async with connected(scene.place.cluster.kafka, tls=context) as client:
        await client.ask(17, 1, mechanism="PLAIN")
        # SaslAuthenticate in version 2 with a length beyond the end of the frame
        body = b"\0\x24\0\x02\0\0\0\x09\xff\xff\0\x7f\0alice\0a wr0ng password"
        await client.write(len(body).to_bytes(4) + body)
        assert await client.is_closed()


def run_commands(scene: Scene) -> None:
    """Runs the command line with users and tokens, and stores command lines and environments meanwhile."""
    place = scene.place
    server, valid = ("--server", place.address(None)), token("User")
    scene.hidden.add("token of the command line", valid)
    token_file = scene.file("token", valid)
    wrong = scene.file("wrong", "a wr0ng password")
    listing = ("topics", "list", *server)
    assert scene.command("--token-file", str(token_file), *listing) == 0
    assert scene.command("--token-file", str(wrong), *listing) == 1
    assert scene.command(f"--user={ADMIN}", f"--password-file={wrong}", *listing) == 1
    assert scene.command("--user=alice", *listing, SHAREBROKER_PASSWORD="a wr0ng password") == 1
    process = place.cluster.processes[0].process
    assert process is not None
    command = [SHAREBROKER, f"--user={ADMIN}", f"--password-file={place.password_file}"]
    command += ["consume", "secrets", "--group", unique("group"), "--from-beginning", *server]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as consuming:
        try:
            assert consuming.stdout is not None
            assert consuming.stdout.readline()
            for each in (process.pid, consuming.pid, *_children(process.pid)):
                scene.wrote("command lines", Path(f"/proc/{each}/cmdline").read_bytes())
            for child in _children(process.pid):
                scene.wrote("environments of children", Path(f"/proc/{child}/environ").read_bytes())
        finally:
            consuming.terminate()
            out, err = consuming.communicate(timeout=SECONDS)
    scene.wrote("output of commands", out + err)


def _children(pid: int) -> list[int]:
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for listed in lists for child in listed.read_text().split()]


def collect(scene: Scene) -> None:
    """Stores what the server wrote until now."""
    (process,) = scene.place.cluster.processes
    until(lambda: scene.collector.requests, SECONDS)
    scene.wrote("log of the server", process.log)
    scene.wrote("audit log", (scene.folder / "audit.log").read_bytes())
    with urlopen(f"http://{process.facts['metrics']}/metrics", timeout=SECONDS) as response:
        scene.wrote("metrics", response.read())
    for request in scene.collector.requests:
        scene.wrote("traces", request.SerializeToString())
    files = [option for option in process.options if option != "--metrics=127.0.0.1:0"]
    assert scene.command("serve", "--print-config", *files, into="printed settings") == 0
    redis = scene.place.cluster.redis_url
    scene.command("doctor", "--redis", redis, "--server", scene.place.address(), into="doctor")


@pytest.mark.parametrize("where", PLACES)
def test_no_secret_is_written(scene: Scene, written: Mapping[str, bytes], where: str) -> None:
    assert written[where], "nothing was written"
    assert scene.hidden.found_in(written[where]) == []


def test_search_finds_secrets_in_every_encoding() -> None:
    hidden = Secrets()
    hidden.add("secret", b'p\xff "1')
    for form in (b'p\xff "1', b"cP8gIjE=", b"cP8gIjE", b"70FF202231", b"p%FF%20%221", b'p\\xff "1'):
        assert hidden.found_in(b"x" + form + b"x") == ["secret"]
    assert hidden.found_in(b"p 1") == []
