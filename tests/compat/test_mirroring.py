"""The recipes of docs/mirroring.md between a real Kafka and Sharebroker, in both directions."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import time
from typing import Any, Final

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from sharebroker import Admin
from sharebroker.acls import Acl
from sharebroker_server.config.broker import STANDARD_AUTHORIZER
from tests.support.client import unique
from tests.support.kafka_jars import MIRROR, SERVER, is_there
from tests.support.kafka_server import running_kafka
from tests.support.kafka_tools import as_properties, end_at_once, java, java_environment, needs_kafka
from tests.testkit.brokers import one_process
from tests.testkit.secured import secured
from tests.testkit.servers import free_port
from tests.testkit.waiting import until

pytestmark = [needs_kafka, pytest.mark.slow, pytest.mark.timeout(240), pytest.mark.xdist_group("mirroring")]

DOCUMENT: Final = (Path(__file__).parents[2] / "docs" / "mirroring.md").read_text()
SHAREBROKER, KAFKA = "sharebroker", "kafka"
PARTITIONS: Final = 3
PATIENCE: Final = 60.0
CONFIG: Final = {"retention.ms": "-1"}
STOP_SECONDS: Final = 20.0

Headers = list[tuple[str, str | bytes | None]]
Record = tuple[bytes | None, bytes | None, Headers, int]
"""Key, value, headers and timestamp of a record."""


@dataclass(frozen=True)
class Place:
    """A cluster with the name that the document gives it, and settings with which its clients authenticate.

    `login` are settings of librdkafka, and `mirror_login` those of the user of MirrorMaker for Java.
    """

    name: str
    address: str
    login: Mapping[str, Any] = field(default_factory=dict)
    mirror_login: Mapping[str, object] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of librdkafka."""
        return {"bootstrap.servers": self.address, **self.login}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Place]]:
    """Both clusters by name."""
    with running_kafka(tmp_path_factory.mktemp("kafka")) as kafka, one_process() as sharebroker:
        yield {
            KAFKA: Place(KAFKA, kafka.bootstrap),
            SHAREBROKER: Place(SHAREBROKER, sharebroker.kafka),
        }


@pytest.fixture(params=[(KAFKA, SHAREBROKER), (SHAREBROKER, KAFKA)], ids=" to ".join)
def route(request: pytest.FixtureRequest, places: dict[str, Place]) -> tuple[Place, Place]:
    """The source and the target of a mirror."""
    source, target = request.param
    return places[source], places[target]


def create(at: Place, topic: str) -> None:
    admin = AdminClient(at.settings)
    admin.create_topics([NewTopic(topic, PARTITIONS, 1, config=CONFIG)])[topic].result(PATIENCE)


def config_of(at: Place, topic: str) -> dict[str, str]:
    """Returns the properties of `CONFIG` that a topic has."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    admin = AdminClient(at.settings)
    entries = admin.describe_configs([resource])[resource].result(PATIENCE)
    return {name: entries[name].value for name in CONFIG}


def produce(at: Place, topic: str, records: dict[int, list[Record]], *, aborted: bool | None = None) -> None:
    """Produces records by partition; in one transaction unless `aborted` is None."""
    options: dict[str, Any] = {**at.settings, "enable.idempotence": True}
    transactional = {} if aborted is None else {"transactional.id": unique("mirror")}
    producer = confluent_kafka.Producer({**options, **transactional})
    if aborted is not None:
        producer.init_transactions(PATIENCE)
        producer.begin_transaction()
    for partition, several in records.items():
        for key, value, headers, timestamp in several:
            producer.produce(topic, value, key, partition, timestamp=timestamp, headers=headers)
    assert producer.flush(PATIENCE) == 0
    if aborted is not None:
        (producer.abort_transaction if aborted else producer.commit_transaction)(PATIENCE)


def stored(at: Place, topic: str) -> dict[int, list[Record]]:
    """Returns the committed records of each partition, in order."""
    consumer = confluent_kafka.Consumer({**at.settings, "group.id": "none", "enable.partition.eof": True})
    found: dict[int, list[Record]] = {partition: [] for partition in range(PARTITIONS)}
    ends = 0
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in found])
        while ends < PARTITIONS:
            message = consumer.poll(PATIENCE)
            assert message is not None
            if (error := message.error()) is not None:
                assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF
                ends += 1
                continue
            partition, headers = message.partition(), message.headers() or []
            assert partition is not None
            assert isinstance(headers, list)
            found[partition].append((message.key(), message.value(), headers, message.timestamp()[1]))
    finally:
        consumer.close()
    return found


def count(at: Place, topic: str) -> int:
    return sum(map(len, stored(at, topic).values()))


def records_of_every_form() -> dict[int, list[Record]]:
    """Returns records with and without key, value and headers, an hour old, by partition."""
    hour_ago = round((time() - 3600) * 1000)
    bodies: list[tuple[bytes | None, bytes | None, Headers]] = [
        (b"key", b"value", [("trace", b"\x00\xff"), ("trace", b"again"), ("empty", b"")]),
        (None, b"without a key", []),
        (b"deleted", None, []),
        (b"", b"", []),
        (b"\x00\n\t", bytes(range(256)), []),
    ]
    return {
        partition: [
            (key, value, headers, hour_ago + 10 * number)
            for number, (key, value, headers) in enumerate(bodies)
        ]
        for partition in range(PARTITIONS)
    }


def configs(name: str, source: Place, target: Place, changes: dict[str, object]) -> dict[str, object]:
    """Returns a file of the document, whose source is Kafka, for another route, with changes."""
    block = re.search(rf"```properties\n# {name}\n(.*?)```", DOCUMENT, re.DOTALL)
    assert block is not None, name
    names = {
        "kafka.example:9092": source.address,
        "sharebroker.example:9092": target.address,
        KAFKA: source.name,
        SHAREBROKER: target.name,
    }
    values = dict(line.split("=", 1) for line in block[1].splitlines())
    values = {key: names.get(value, value) for key, value in values.items()}
    return {**values, **changes}


def logins(at: Place, *prefixes: str) -> dict[str, object]:
    """Returns the settings with which MirrorMaker authenticates, with each prefix."""
    return {f"{prefix}{name}": value for prefix in prefixes for name, value in at.mirror_login.items()}


@contextlib.contextmanager
def mirroring(folder: Path, source: Place, target: Place, topics: str) -> Iterator[Path]:
    """Runs MirrorMaker as the document describes; provides its output."""
    output = folder / "connect.log"
    worker: dict[str, object] = {
        "listeners": f"http://127.0.0.1:{free_port()}",
        "offset.storage.file.filename": folder / "offsets",
        "offset.flush.interval.ms": 500,
        **logins(target, "", "producer."),
    }
    mirror: dict[str, object] = {
        "topics": topics,
        "refresh.topics.interval.seconds": 1,
        **logins(source, "source.cluster."),
        **logins(target, "target.cluster."),
    }
    files = {"worker.properties": worker, "mirror.properties": mirror}
    for name, changes in files.items():
        (folder / name).write_text(as_properties(configs(name, source, target, changes)))
    command = java("org.apache.kafka.connect.cli.ConnectStandalone", *(str(folder / name) for name in files))
    with output.open("ab") as log:
        process = subprocess.Popen(
            command,
            env=java_environment(SERVER, [MIRROR.folder / "*"]),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        yield output
    finally:
        end_at_once(process, STOP_SECONDS)


@pytest.mark.skipif(not is_there(MIRROR), reason="MirrorMaker's jars are missing: make kafka")
def test_mirrormaker_keeps_records_and_continues(route: tuple[Place, Place], tmp_path: Path) -> None:
    source, target = route
    topic = unique("orders")
    first = records_of_every_form()
    later: dict[int, list[Record]] = {1: [(b"later", b"1", [], round(time() * 1000))]}
    create(source, topic)
    produce(source, topic, {0: [(b"aborted", b"1", [], 0)]}, aborted=True)
    produce(source, topic, first)
    produce(source, topic, later, aborted=False)
    expected = {**first, 1: first[1] + later[1]}
    assert stored(source, topic) == expected
    with mirroring(tmp_path, source, target, topic) as output:
        total = sum(map(len, expected.values()))
        try:
            until(lambda: exists(target, topic) and count(target, topic) >= total, PATIENCE)
        except AssertionError:
            pytest.fail(output.read_text()[-4000:])
    assert stored(target, topic) == expected
    assert config_of(target, topic) == CONFIG
    produce(source, topic, later)
    with mirroring(tmp_path, source, target, topic):
        until(lambda: count(target, topic) > total, PATIENCE)
    assert stored(target, topic) == {**expected, 1: expected[1] + later[1]}


def named_rights() -> dict[str, set[str]]:
    """Returns what the user of MirrorMaker may do with the topics at each cluster."""
    sentence = re.search(
        r"user at the source needs (.*?); the one at the target needs (.*?)\.", DOCUMENT, re.DOTALL
    )
    assert sentence is not None
    return {
        name: {right.lower().replace("_", "-") for right in re.findall(r"[A-Z_]{4,}", text)}
        for name, text in zip((KAFKA, SHAREBROKER), sentence.groups(), strict=True)
    }


MIRROR_USER, MIRROR_PASSWORD = "mirror", "the secret of the mirror"


@contextlib.contextmanager
def guarded(name: str, folder: Path, topic: str) -> Iterator[Place]:
    """Runs a Sharebroker with access control in the place of a cluster of the document."""
    folder.mkdir()
    with secured(one_process, folder, f"--set=authorizer.class.name={STANDARD_AUTHORIZER}") as cluster:
        with Admin(cluster.address()) as admin:
            admin.set_password(MIRROR_USER, MIRROR_PASSWORD)
            admin.create_acls(
                [Acl(f"User:{MIRROR_USER}", right, "topic", topic) for right in named_rights()[name]]
            )
            admin.set_password(f"{name}-user", MIRROR_PASSWORD)
        login = cluster.java("SCRAM-SHA-256", MIRROR_USER, MIRROR_PASSWORD)
        yield Place(name, cluster.cluster.kafka, cluster.librdkafka("SCRAM-SHA-256"), login)


@pytest.mark.skipif(not is_there(MIRROR), reason="MirrorMaker's jars are missing: make kafka")
def test_the_named_permissions_suffice_and_are_not_mirrored(tmp_path: Path) -> None:
    topic = unique("orders")
    with (
        guarded(KAFKA, tmp_path / "source", topic) as source,
        guarded(SHAREBROKER, tmp_path / "target", topic) as target,
    ):
        create(source, topic)
        sent: dict[int, list[Record]] = {0: [(b"key", b"value", [], round(time() * 1000))], 1: [], 2: []}
        produce(source, topic, sent)
        with contextlib.closing(confluent_kafka.Consumer({**source.settings, "group.id": "done"})) as group:
            group.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
        with mirroring(tmp_path, source, target, topic) as output:
            try:
                until(lambda: exists(target, topic) and stored(target, topic) == sent, PATIENCE)
            except AssertionError:
                pytest.fail(output.read_text()[-4000:])
        assert config_of(target, topic) == CONFIG
        admins = [AdminClient(place.settings) for place in (source, target)]
        assert [rights(admin, topic) for admin in admins] == [*named_rights().values()]
        assert ["done" in groups(admin) for admin in admins] == [True, False]
        assert [f"{KAFKA}-user" in users(admin) for admin in admins] == [True, False]


def rights(admin: AdminClient, topic: str) -> set[str]:
    """Returns the operations that ACLs of a topic permit."""
    every: Any = None  # any principal, any host
    literal, operation = ResourcePatternType.LITERAL, AclOperation.ANY
    any_of = AclBindingFilter(
        ResourceType.TOPIC, topic, literal, every, every, operation, AclPermissionType.ANY
    )
    found = admin.describe_acls(any_of).result(PATIENCE)
    return {acl.operation.name.lower().replace("_", "-") for acl in found}


def users(admin: AdminClient) -> set[str]:
    """Returns the names of the users with a SCRAM credential."""
    every: Any = admin.describe_user_scram_credentials()
    return {*every.result(PATIENCE)}


def groups(admin: AdminClient) -> set[str]:
    """Returns the ids of the consumer groups."""
    return {group.group_id for group in admin.list_consumer_groups().result(PATIENCE).valid}


def exists(at: Place, topic: str) -> bool:
    listed = AdminClient(at.settings).list_topics(timeout=PATIENCE)
    return topic in listed.topics


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is missing: make kcat")
def test_kcat_keeps_keys_and_values(route: tuple[Place, Place]) -> None:
    source, target = route
    topic, now = unique("orders"), round(time() * 1000)
    for place in route:
        create(place, topic)
    produce(source, topic, {0: [(b"aborted", b"1", [], now)]}, aborted=True)
    sent: dict[int, list[Record]] = {
        0: [
            (b"key", b"value", [("lost", b"header")], now - 60_000),
            (None, b"without a key", [], now),
            (b"deleted", None, [], now),
        ]
    }
    produce(source, topic, sent)
    block = re.search(r"```sh kcat\n(.*?)```", DOCUMENT, re.DOTALL)
    assert block is not None
    subprocess.run(
        ["bash", "-o", "pipefail", "-c", block[1].replace("orders", topic)],
        env={**os.environ, "SOURCE": source.address, "TARGET": target.address},
        check=True,
        timeout=PATIENCE,
    )
    copied = stored(target, topic)
    assert [(key, value) for key, value, _, _ in copied[0]] == [
        (b"key", b"value"),
        (b"", b"without a key"),
        (b"deleted", b""),
    ]
    assert all(not headers and timestamp >= now for _, _, headers, timestamp in copied[0])
