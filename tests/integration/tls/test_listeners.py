"""Both listeners and all calls between four processes over TLS, with certificates on both sides."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
from confluent_kafka import KafkaError as LibrdError
from confluent_kafka import Producer as KafkaProducer
from confluent_kafka import ShareConsumer as KafkaShareConsumer

from sharebroker import Admin, Producer, ShareConsumer
from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.keda import externalscaler_pb2 as keda
from sharebroker_protocol.keda.externalscaler_pb2_grpc import ExternalScalerStub
from tests.support.java_share_consumer import share_consumer
from tests.support.kafka_jars import CLIENTS, is_there
from tests.testkit.brokers import Cluster, four_processes
from tests.testkit.certificates import Authority, Identity
from tests.testkit.waiting import until

pytestmark = pytest.mark.xdist_group("tls listeners")  # its tests share a cluster

SECONDS = 60.0
JARS = CLIENTS["4.3.1"]


@dataclass(frozen=True)
class Place:
    """Four processes that trust `authority` alone, a client certificate it signed, and another authority."""

    cluster: Cluster
    authority: Authority
    someone: Identity
    others: Authority

    def address(self, trusted: Authority | None = None, shown: Identity | None = None) -> str:
        """Returns a client of the gRPC listener."""
        query = [f"ca={(trusted or self.authority).file}"]
        query += [f"cert={shown.certificate}", f"key={shown.key}"] if shown else []
        return f"tls://{self.cluster.address}?{'&'.join(query)}"

    def kafka(self, shown: Identity | None = None, trusted: Authority | None = None) -> dict[str, str]:
        """Returns librdkafka's settings."""
        settings = {
            "bootstrap.servers": self.cluster.kafka,
            "security.protocol": "ssl",
            "ssl.ca.location": str((trusted or self.authority).file),
            "log_level": "2",
        }
        if shown is not None:
            settings |= {"ssl.certificate.location": str(shown.certificate)}
            settings |= {"ssl.key.location": str(shown.key)}
        return settings

    def wait_for_log(self, text: str) -> None:
        """Waits until the gateway's log contains the text."""
        until(lambda: text in self.cluster.process("gateway").log, SECONDS)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("tls")
    authority, others = Authority.make(folder / "ours"), Authority.make(folder / "others")
    broker = authority.issue("broker", "127.0.0.1")
    options = [f"--tls-cert={broker.certificate}", f"--tls-key={broker.key}", f"--tls-ca={authority.file}"]
    with four_processes(*options, "--set=ssl.client.auth=required") as cluster:
        yield Place(cluster, authority, authority.issue("someone", "someone.example"), others)


@pytest.fixture
def topic(place: Place, request: pytest.FixtureRequest) -> str:
    name: str = request.node.name
    with Admin(place.address(shown=place.someone)) as admin:
        admin.create_topic(name, 1)
        admin.alter_group_configs(name, {"share.auto.offset.reset": "earliest"})
    return name


def test_python_client_works_over_tls(place: Place, topic: str) -> None:
    address = place.address(shown=place.someone)
    with Producer(address) as producer, ShareConsumer(address, topic, [topic]) as consumer:
        producer.send(topic, b"over TLS").result(SECONDS)
        (record,) = consumer.poll(timeout=SECONDS)
        record.accept()
        (result,) = consumer.commit()
    assert record.value == b"over TLS"
    assert result.error is None


def test_keda_scaler_works_over_tls(place: Place, topic: str) -> None:
    """The fields that a TriggerAuthentication passes to KEDA: caCert, tlsClientCert and tlsClientKey."""
    files = place.authority.file, place.someone.key, place.someone.certificate
    credentials = grpc.ssl_channel_credentials(*(file.read_bytes() for file in files))
    ref = keda.ScaledObjectRef(scalerMetadata={"group": topic, "topic": topic, "enableTLS": "true"})
    with (
        Producer(place.address(shown=place.someone)) as producer,
        grpc.secure_channel(place.cluster.address, credentials) as channel,
    ):
        producer.send(topic, b"over TLS").result(SECONDS)
        assert ExternalScalerStub(channel).IsActive(ref, timeout=SECONDS).result


def test_command_line_works_over_tls(place: Place, topic: str) -> None:
    command = [str(Path(sys.executable).with_name("sharebroker")), "topics", "list"]
    command += ["--server", place.address(shown=place.someone)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert topic in done.stdout, done.stderr


def test_librdkafka_works_over_tls(place: Place, topic: str) -> None:
    settings = place.kafka(place.someone)
    producer = KafkaProducer(settings)
    producer.produce(topic, b"over TLS")
    assert producer.flush(SECONDS) == 0
    consumer = KafkaShareConsumer({**settings, "group.id": topic})
    consumer.subscribe([topic])
    got: list[bytes | None] = []

    def polled() -> bool:
        got.extend(one.value() for one in consumer.poll(1))
        return bool(got)

    until(polled, SECONDS)
    consumer.close()
    assert got == [b"over TLS"]


@pytest.mark.skipif(not is_there(JARS), reason="Kafka's jars are not here: make kafka")
def test_java_client_works_over_tls(place: Place, topic: str) -> None:
    producer = KafkaProducer(place.kafka(place.someone))
    producer.produce(topic, b"over TLS")
    assert producer.flush(SECONDS) == 0
    settings = {
        "security_protocol": "SSL",
        "ssl_truststore_type": "PEM",
        "ssl_truststore_location": str(place.authority.file),
        "ssl_keystore_type": "PEM",
        "ssl_keystore_location": str(place.someone.both),
    }
    with share_consumer(JARS, place.cluster.kafka, topic, topic, **settings) as consumer:
        assert [one.value for one in consumer.poll(1, SECONDS)] == ["over TLS"]


def rejected(address: str) -> str:
    """Returns the error that a client receives."""
    with Admin(address) as admin, pytest.raises(KafkaError) as caught:
        admin.list_topics()
    return caught.value.message


def test_broker_with_an_unknown_authority_is_rejected(place: Place) -> None:
    error = rejected(place.address(trusted=place.others, shown=place.someone))
    assert "CERTIFICATE_VERIFY_FAILED" in error


def test_client_without_a_certificate_is_rejected(place: Place) -> None:
    assert rejected(place.address())
    assert rejected(place.cluster.address)  # not even TLS
    # Connection attempts without TLS write no log lines of another format.
    assert all(json.loads(line) for line in place.cluster.process("gateway").log.splitlines())


def first_error(place: Place, settings: dict[str, str]) -> LibrdError:
    """Returns the first error that librdkafka reports."""
    errors: list[LibrdError] = []
    producer = KafkaProducer({**settings, "error_cb": errors.append})
    until(lambda: producer.poll(0.1) or errors, SECONDS)
    return errors[0]


def test_kafka_clients_receive_a_reason_for_rejection(place: Place) -> None:
    error = first_error(place, place.kafka(place.someone, trusted=place.others))
    assert "certificate verify failed" in error.str()
    place.wait_for_log("unknown ca")
    first_error(place, place.kafka())
    place.wait_for_log("peer did not return a certificate")
    first_error(place, {"bootstrap.servers": place.cluster.kafka, "log_level": "2"})
    place.wait_for_log("TLS: wrong version number")


async def test_grpcio_works_over_tls(place: Place) -> None:
    who = place.someone
    credentials = grpc.ssl_channel_credentials(
        place.authority.file.read_bytes(), who.key.read_bytes(), who.certificate.read_bytes()
    )
    async with grpc.aio.secure_channel(place.cluster.address, credentials) as channel:
        async with asyncio.timeout(SECONDS):
            await channel.channel_ready()
