"""A running cluster gets users, ACLs, another certificate and another secret, and loses no record.

The steps are those of "Change a running cluster" in docs/security.md. Clients work all the time: first
without a user, then as a user with the permissions of its topic and group.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer, ShareConsumer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from confluent_kafka.cimpl import NewTopic

from sharebroker import Admin
from tests.testkit.brokers import Serve
from tests.testkit.certificates import Authority
from tests.testkit.cluster_tokens import store_secrets
from tests.testkit.servers import running
from tests.testkit.waiting import until

pytestmark = [pytest.mark.servers, pytest.mark.slow]

TOPIC, GROUP, USER, PASSWORD = "orders", "billing", "alice", "the password of alice"
PATIENCE = 60.0
STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
TRANSITION = (
    "--set=sasl.enabled.mechanisms=SCRAM-SHA-512",
    "--set=sasl.client.auth=requested",
    f"--set=authorizer.class.name={STANDARD}",
    "--set=super.users=User:ANONYMOUS",
)
PROTECTED = ("--set=sasl.enabled.mechanisms=SCRAM-SHA-512", f"--set=authorizer.class.name={STANDARD}")


class Clients:
    """A producer and a share consumer with the same settings, each in a thread of its own."""

    def __init__(self, settings: dict[str, str | int | float | bool], prefix: str) -> None:
        self.delivered: set[str] = set()
        self.consumed: set[str] = set()
        self.denied: list[KafkaError] = []
        self._settings = settings
        self._prefix = prefix
        self._producing, self._consuming = threading.Event(), threading.Event()
        self._threads = [threading.Thread(target=work) for work in (self._produce, self._consume)]

    @contextmanager
    def working(self) -> Iterator[None]:
        """Produces and consumes meanwhile; `end` ends the producer before."""
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._producing.set()
            self._consuming.set()
            for thread in self._threads:
                thread.join()

    def end_producer(self) -> None:
        """Ends the producer after its outstanding records."""
        self._producing.set()
        self._threads[0].join()

    def progress(self, records: int = 50) -> None:
        """Waits until both have progressed by this many records."""
        delivered, consumed = len(self.delivered) + records, len(self.consumed) + records
        until(lambda: len(self.delivered) >= delivered and len(self.consumed) >= consumed, PATIENCE)

    def _produce(self) -> None:
        producer = Producer({**self._settings, "enable.idempotence": True, "linger.ms": 5, "log_level": 0})
        for number in count():
            if self._producing.is_set():
                break
            text = f"{self._prefix}-{number}"
            producer.produce(TOPIC, text, on_delivery=partial(self._note, text))
            producer.poll(0.002)
        producer.flush(PATIENCE)

    def _note(self, text: str, error: KafkaError | None, _message: object) -> None:
        if error is None:
            self.delivered.add(text)
        else:
            self.denied.append(error)

    def _consume(self) -> None:
        consumer = ShareConsumer({**self._settings, "group.id": GROUP, "log_level": 0})
        consumer.subscribe([TOPIC])
        while not self._consuming.is_set():
            for message in consumer.poll(0.2):
                if message.error() is None:
                    self.consumed.add((message.value() or b"").decode())
        consumer.close()


@pytest.fixture
def redis() -> Iterator[str]:
    with running("valkey", "--appendonly", "yes", "--appendfsync", "always") as server:
        yield server.url


def restart(brokers: Mapping[int, Serve], static: Sequence[str], *options: str) -> None:
    """Restarts the brokers one by one; `static` are the options that no step changes."""
    for number, serve in brokers.items():
        serve.options = [*static, f"--set=node.id={number}", *options]
        serve.restart()


def as_user(settings: dict[str, str | int | float | bool]) -> dict[str, str | int | float | bool]:
    """Returns the settings of a client that authenticates."""
    login = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": USER, "sasl.password": PASSWORD}
    return {**settings, "security.protocol": "sasl_ssl", **login}


def give_permissions(admin: AdminClient) -> None:
    """Creates the user, and the ACLs of a producer and a member of the group."""
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    user = UserScramCredentialUpsertion(USER, info, PASSWORD.encode())
    for future in admin.alter_user_scram_credentials([user]).values():
        future.result(PATIENCE)
    kinds = [
        (ResourceType.TOPIC, TOPIC, AclOperation.READ),
        (ResourceType.TOPIC, TOPIC, AclOperation.WRITE),
        (ResourceType.GROUP, GROUP, AclOperation.READ),
    ]
    literal, allow = ResourcePatternType.LITERAL, AclPermissionType.ALLOW
    acls = [
        AclBinding(kind, name, literal, f"User:{USER}", "*", operation, allow)
        for kind, name, operation in kinds
    ]
    for future in admin.create_acls(acls).values():
        future.result(PATIENCE)


def test_users_acls_certificates_and_secret_change_under_load(redis: str, tmp_path: Path) -> None:
    authority = Authority.make(tmp_path / "authority")
    first, second = (authority.issue(name, "127.0.0.1") for name in ("first", "second"))
    files = {"cert": tmp_path / "tls.crt", "key": tmp_path / "tls.key"}

    def install(certificate: Path, key: Path) -> None:
        for source, target in ((certificate, files["cert"]), (key, files["key"])):
            shutil.copy(source, tmp_path / "new")
            (tmp_path / "new").replace(target)

    install(first.certificate, first.key)
    static = ["--redis", redis, f"--tls-cert={files['cert']}", f"--tls-key={files['key']}"]
    static += [f"--tls-ca={authority.file}", "--set=group.share.min.heartbeat.interval.ms=100"]
    brokers = {
        number: Serve(tmp_path, [*static, f"--set=node.id={number}"], f"broker-{number}") for number in (1, 2)
    }
    serves = list(brokers.values())
    try:
        for serve in serves:
            serve.start()
        open_settings: dict[str, str | int | float | bool] = {
            "bootstrap.servers": ",".join(serve.kafka for serve in serves),
            "security.protocol": "ssl",
            "ssl.ca.location": str(authority.file),
            "reconnect.backoff.max.ms": 500,
        }
        admin = AdminClient(open_settings)
        for future in admin.create_topics([NewTopic(TOPIC, 4)]).values():
            future.result(PATIENCE)
        with Admin(f"tls://{serves[0].address}?ca={authority.file}") as ours:
            ours.alter_group_configs(GROUP, {"share.auto.offset.reset": "earliest"})
        anonymous, alice = Clients(open_settings, "anonymous"), Clients(as_user(open_settings), "alice")
        with anonymous.working():
            anonymous.progress()
            restart(brokers, static, *TRANSITION)
            anonymous.progress()
            give_permissions(admin)
            with alice.working():
                alice.progress()
                anonymous.end_producer()
                restart(brokers, static, *PROTECTED)
                alice.progress()
                store_secrets(redis, b"another secret of the cluster")
                install(second.certificate, second.key)
                until(lambda: all("cluster secret changed" in serve.log for serve in serves), PATIENCE)
                alice.progress(200)
                alice.end_producer()
                produced = anonymous.delivered | alice.delivered
                until(lambda: anonymous.consumed | alice.consumed >= produced, PATIENCE)
        assert not anonymous.denied
        assert not alice.denied
    finally:
        for serve in serves:
            serve.stop()
