"""Share groups over a real Kafka: clients of `serve --log`, and connections with TLS and SASL."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic

from sharebroker import Admin, ShareConsumer, TopicPartition
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import plan_pb2 as plan
from sharebroker_server.broker.examination.upstream import examine_upstream
from sharebroker_server.kafka_client.cluster import ClusterClient
from sharebroker_server.kafka_client.settings import upstream_settings
from tests.compat.test_franz_go import (
    MEMBERS,
    PARTITIONS,
    RECORDS,
    check_deliveries,
    deliveries,
    needs_program,
    run_at,
)
from tests.compat.test_java_clients import TOUR, check_tour
from tests.support.client import connected, rejection, unique
from tests.support.grpcurl import acknowledge, acquire, needs_grpcurl, read_from_the_start
from tests.support.kafka_jars import CLIENTS, SERVER, UPSTREAMS, JarSet, is_there
from tests.support.kafka_server import KafkaCluster, running_kafka
from tests.support.kafka_tools import needs_kafka, run_program
from tests.support.kafka_topics import create_topic
from tests.testkit.brokers import Cluster, Serve, one_process, serving
from tests.testkit.certificates import Authority, Identity
from tests.testkit.waiting import eventually, until

pytestmark = [needs_kafka, pytest.mark.slow, pytest.mark.timeout(240), pytest.mark.xdist_group("upstream")]
SECONDS = 30.0
WORD = "s3cret-word"
PROTOCOLS = ("SASL_PLAINTEXT", "SSL")


@dataclass(frozen=True)
class Upstream:
    """A real Kafka with listeners for SASL and mutual TLS, and the files of its clients."""

    kafka: KafkaCluster
    authority: Authority
    client: Identity
    folder: Path

    def lines(self, protocol: str) -> list[str]:
        """Returns the properties of a client that connects with a security protocol."""
        common = [f"security.protocol={protocol}", "metadata.max.age.ms=1000"]
        if protocol == "SASL_PLAINTEXT":
            module = "org.apache.kafka.common.security.plain.PlainLoginModule"
            login = f'{module} required username="reader" password="{WORD}";'
            return [*common, "sasl.mechanism=PLAIN", f"sasl.jaas.config={login}"]
        return [
            *common,
            "ssl.truststore.type=PEM",
            f"ssl.truststore.location={self.authority.file}",
            "ssl.keystore.type=PEM",
            f"ssl.keystore.location={self.client.both}",
        ]

    def file(self, lines: list[str]) -> Path:
        """Returns a property file with these lines."""
        path = self.folder / f"{unique('client')}.properties"
        path.write_text("\n".join(lines))
        return path


def broker_properties(authority: Authority) -> dict[str, object]:
    server = authority.issue("broker", "localhost", "127.0.0.1")
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    ssl = "listener.name.ssl.ssl"
    return {
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{module} required user_reader="{WORD}";',
        # Kafka 2.8 accepts no PEM file whose key has no password.
        f"{ssl}.keystore.type": "PKCS12",
        f"{ssl}.keystore.location": server.pkcs12(WORD),
        f"{ssl}.keystore.password": WORD,
        f"{ssl}.key.password": WORD,
        f"{ssl}.truststore.type": "PEM",
        f"{ssl}.truststore.location": authority.file,
        f"{ssl}.client.auth": "required",
    }


@pytest.fixture(scope="module", params=[SERVER, *UPSTREAMS.values()], ids=lambda jars: jars.version)
def upstream(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upstream]:
    jars: JarSet = request.param
    if not is_there(jars):
        pytest.skip(f"Kafka {jars.version} is missing: make kafka-upstream")
    folder = tmp_path_factory.mktemp("upstream")
    authority = Authority.make(folder / "ca")
    properties = broker_properties(authority)
    with running_kafka(folder / "kafka", properties=properties, jars=jars, listeners=PROTOCOLS) as kafka:
        yield Upstream(kafka, authority, authority.issue("client", "client"), folder)


@pytest.fixture(scope="module")
def side(upstream: Upstream) -> Iterator[Cluster]:
    """Sharebroker beside it, connected with SASL."""
    protocol = "SASL_PLAINTEXT"
    file = upstream.file(upstream.lines(protocol))
    log = f"kafka://{upstream.kafka.bootstrap_of(protocol)}"
    with one_process("--log", log, "--upstream-config", str(file)) as cluster:
        yield cluster


def create(upstream: Upstream, side: Cluster, partitions: int = 1, **config: str) -> str:
    """Creates a topic in Kafka; returns its name once Sharebroker has it."""
    name = create_topic(upstream.kafka, partitions, config=config)
    until(lambda: partitions_of(side, name) == partitions, timeout=SECONDS)
    return name


def partitions_of(side: Cluster, topic: str) -> int:
    """Returns the number of partitions that Sharebroker's metadata has; 0 without the topic."""
    found = AdminClient({"bootstrap.servers": side.kafka}).list_topics(timeout=SECONDS).topics.get(topic)
    return 0 if found is None else len(found.partitions)


def produce(address: str, topic: str, values: list[str], **settings: object) -> list[Any]:
    """Produces values; returns the errors."""
    errors: list[Any] = []
    producer = confluent_kafka.Producer({"bootstrap.servers": address, "linger.ms": 20, **settings})
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
    assert not producer.flush(SECONDS)
    return errors


def refusal(future: Future[object]) -> int:
    """Returns the code of the error of a request."""
    error = future.exception(SECONDS)
    assert error is not None
    code: int = error.args[0].code()
    return code


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_clients_connect_with_kafkas_properties(upstream: Upstream, protocol: str) -> None:
    settings = upstream_settings(
        upstream.file(upstream.lines(protocol)), upstream.kafka.bootstrap_of(protocol)
    )
    client = ClusterClient(settings.bootstrap, settings.connection)
    try:
        assert list((await client.refresh()).brokers) == [0]
    finally:
        client.close()


@pytest.mark.parametrize(
    ("protocol", "changed", "code", "reason"),
    [
        (
            "SASL_PLAINTEXT",
            lambda line: line.replace(WORD, f"{WORD}-old"),
            ErrorCode.SASL_AUTHENTICATION_FAILED,
            "Authentication failed",
        ),
        (
            "SASL_PLAINTEXT",
            lambda line: line.replace("=PLAIN", "=SCRAM-SHA-256").replace("plain.Plain", "scram.Scram"),
            ErrorCode.UNSUPPORTED_SASL_MECHANISM,
            "The broker has the mechanisms PLAIN, not SCRAM-SHA-256.",
        ),
        ("SSL", lambda line: "" if "keystore" in line else line, ErrorCode.NETWORK_EXCEPTION, "."),
        (
            "SSL",
            lambda line: "" if "truststore" in line else line,
            ErrorCode.NETWORK_EXCEPTION,
            "certificate",
        ),
    ],
    ids=["password", "mechanism", "no certificate", "unknown authority"],
)
async def test_a_refused_client_gets_the_reason(
    upstream: Upstream, protocol: str, changed: Callable[[str], str], code: ErrorCode, reason: str
) -> None:
    file = upstream.file([changed(line) for line in upstream.lines(protocol)])
    settings = upstream_settings(file, upstream.kafka.bootstrap_of(protocol))
    client = ClusterClient(settings.bootstrap, settings.connection)
    try:
        with pytest.raises(KafkaError, match=reason) as failure:
            await client.refresh()
    finally:
        client.close()
    assert failure.value.code == code
    assert WORD not in str(failure.value)


async def test_share_consumers_read_the_records_of_others(upstream: Upstream, side: Cluster) -> None:
    topic = create(upstream, side, partitions=2)
    values = [f"value-{n}" for n in range(300)]
    assert set(produce(upstream.kafka.bootstrap, topic, values[:200])) == {None}
    async with connected(side.address) as client:
        group = await client.group()
        member = unique("member")
        got = await client.acquire_all(group, topic, 200, member)
        assert set(await client.acknowledge(group, member, got)) == {ErrorCode.NONE}
        assert set(produce(upstream.kafka.bootstrap, topic, values[200:])) == {None}
        more = await client.acquire_all(group, topic, 100, member)
        assert set(await client.acknowledge(group, member, more)) == {ErrorCode.NONE}
        rest = await client.acquire(group, topic, 1, member=member, wait=1.0)
    assert sorted(record.text for record in [*got, *more]) == sorted(values)
    assert not rest.records


def test_kafkas_share_consumer_reads_and_acknowledges(upstream: Upstream, side: Cluster) -> None:
    topic, group = create(upstream, side), unique("group")
    admin = AdminClient({"bootstrap.servers": side.kafka})
    resource = ConfigResource(ConfigResource.Type.GROUP, group)
    resource.add_incremental_config(_set("share.auto.offset.reset", "earliest"))
    admin.incremental_alter_configs([resource])[resource].result(SECONDS)
    produce(upstream.kafka.bootstrap, topic, [f"{n}" for n in range(50)], **{"compression.type": "zstd"})
    consumer = confluent_kafka.ShareConsumer({"bootstrap.servers": side.kafka, "group.id": group})
    consumer.subscribe([topic])
    got: list[bytes] = []

    def polled() -> bool:
        got.extend(message.value() or b"" for message in consumer.poll(0.5))
        return len(got) >= 50

    try:
        until(polled, timeout=SECONDS)
    finally:
        consumer.close()
    assert sorted(got, key=int) == [b"%d" % n for n in range(50)]


def test_the_python_client_works_on_them(upstream: Upstream, side: Cluster) -> None:
    topic, group = create(upstream, side), unique("group")
    produce(upstream.kafka.bootstrap, topic, [f"{n}" for n in range(20)])
    got: list[tuple[str, int]] = []
    with Admin(side.address) as admin:
        admin.alter_group_configs(group, {"share.auto.offset.reset": "earliest"})
        with ShareConsumer(side.address, group, [topic]) as consumer:
            while len(got) < 21:
                records = consumer.poll(SECONDS)
                assert records, got
                for record in records:
                    got.append(((record.value or b"").decode(), record.delivery_count))
                    if got[-1] == ("7", 1):
                        record.release()
                    else:
                        record.accept()
                consumer.commit()
        place = TopicPartition(topic, 0)
        until(lambda: admin.group_offsets(group)[place].lag == 0, timeout=SECONDS)
    assert sorted(got) == sorted([(f"{n}", 1) for n in range(20)] + [("7", 2)])


async def test_ranges_for_spark_have_no_aborted_records(upstream: Upstream, side: Cluster) -> None:
    topic = create(upstream, side)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": upstream.kafka.bootstrap, "transactional.id": unique("transaction")}
    )
    producer.init_transactions(SECONDS)
    for value, ends in (
        ("first", producer.commit_transaction),
        ("aborted", producer.abort_transaction),
        ("last", producer.commit_transaction),
    ):
        producer.begin_transaction()
        producer.produce(topic, value, partition=0)
        producer.flush(SECONDS)
        ends(SECONDS)
    async with connected(side.address) as client:

        async def read(*, committed: bool) -> tuple[list[bytes], int]:
            request = plan.ReadRangeRequest(committed=committed)
            request.range.topic, request.range.last_offset = topic, 5
            response = await client.plans.ReadRange(request, timeout=SECONDS)
            values = (b"first", b"aborted", b"last")
            return [value for value in values if value in response.record_batches], response.next_offset

        async def whole() -> bool:
            return (await read(committed=True))[1] == 6

        await eventually(whole, SECONDS)
        assert await read(committed=True) == ([b"first", b"last"], 6)
        assert await read(committed=False) == ([b"first", b"aborted", b"last"], 6)


@needs_grpcurl
def test_grpcurl_acquires_and_acknowledges_them(upstream: Upstream, side: Cluster) -> None:
    topic = create(upstream, side)
    produce(upstream.kafka.bootstrap, topic, ["a", "b", "c"])
    read_from_the_start(side.address, topic)
    acquired = acquire(side.address, topic)
    assert [record["text"] for record in acquired["records"]] == ["a", "b", "c"]
    results = acknowledge(side.address, topic, acquired, ["ACCEPT", "RELEASE", "REJECT"])
    assert [result.get("error_code") for result in results] == [None, None, None]
    again = acquire(side.address, topic)["records"]
    assert [(record["text"], record["delivery_count"]) for record in again] == [("b", 2)]


@pytest.mark.parametrize("version", CLIENTS)
def test_kafkas_java_share_consumers_read_and_acknowledge(
    upstream: Upstream, side: Cluster, version: str
) -> None:
    topic = unique("tour")
    ran = run_program(TOUR, topic, side.kafka, upstream.kafka.bootstrap, jars=CLIENTS[version])
    check_tour(topic, ran.checked().lines)


@needs_program
async def test_franz_gos_share_group_reads_and_acknowledges(upstream: Upstream, side: Cluster) -> None:
    topic = create(upstream, side, PARTITIONS)
    async with connected(side.address) as client:
        group = await client.group()
    arguments = (side.kafka, topic, group, str(MEMBERS), str(RECORDS), upstream.kafka.bootstrap)
    check_deliveries(deliveries(await asyncio.to_thread(run_at, *arguments)))


async def test_producers_are_refused_with_the_right_address(upstream: Upstream, side: Cluster) -> None:
    topic = create(upstream, side)
    addresses = upstream.kafka.bootstrap_of("SASL_PLAINTEXT")
    for settings in ({}, {"enable.idempotence": True}):
        (error,) = produce(side.kafka, topic, ["value"], **settings)
        assert error.code() == ErrorCode.POLICY_VIOLATION
    async with connected(side.address) as client:
        refused = await rejection(client.publish(topic, ["value"]))
    assert refused.code == ErrorCode.POLICY_VIOLATION
    assert f"Topic '{topic}' is in the Kafka cluster at {addresses}" in refused.text


def test_transactions_on_its_topics_are_refused(upstream: Upstream, side: Cluster) -> None:
    topic = create(upstream, side)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": side.kafka, "transactional.id": unique("transaction")}
    )
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    producer.produce(topic, "value")
    with pytest.raises(confluent_kafka.KafkaException) as failure:
        producer.commit_transaction(SECONDS)
    assert "Policy violation" in str(failure.value)


def test_consumers_without_a_share_group_are_refused(upstream: Upstream, side: Cluster) -> None:
    topic = create(upstream, side)
    produce(upstream.kafka.bootstrap, topic, ["value"])
    consumer = confluent_kafka.Consumer({"bootstrap.servers": side.kafka, "group.id": "none"})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    try:
        message = consumer.poll(SECONDS)
    finally:
        consumer.close()
    assert message is not None
    error = message.error()
    assert error is not None
    assert error.code() == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_topics_are_created_and_changed_in_kafka(upstream: Upstream, side: Cluster) -> None:
    topic = create(upstream, side)
    admin = AdminClient({"bootstrap.servers": side.kafka})
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    resource.add_incremental_config(_set("retention.ms", "1000"))
    name, deleted = unique("topic"), confluent_kafka.TopicPartition(topic, 0, 1)
    changes = {
        "create": admin.create_topics([NewTopic(name, 1, 1)])[name],
        "delete": admin.delete_topics([topic])[topic],
        "partitions": admin.create_partitions([NewPartitions(topic, 5)])[topic],
        "configs": admin.incremental_alter_configs([resource])[resource],
        "records": next(iter(admin.delete_records([deleted]).values())),  # the client keeps the dict
    }
    codes = {change: refusal(future) for change, future in changes.items()}
    assert codes == dict.fromkeys(changes, ErrorCode.POLICY_VIOLATION)
    letters = f"dlq.{name}"
    admin.create_topics([NewTopic(letters, 1, 1)])[letters].result(SECONDS)
    assert produce(side.kafka, letters, ["letter"]) == [None]


def test_added_partitions_and_recreated_topics_arrive(upstream: Upstream, side: Cluster) -> None:
    topic = create(upstream, side)
    admin = AdminClient({"bootstrap.servers": upstream.kafka.bootstrap})
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(SECONDS)
    until(lambda: partitions_of(side, topic) == 3, timeout=SECONDS)
    admin.delete_topics([topic])[topic].result(SECONDS)

    def recreated() -> bool:
        try:
            admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(SECONDS)
        except confluent_kafka.KafkaException:
            return False  # the deletion is not complete
        return True

    until(recreated, timeout=SECONDS)
    until(lambda: partitions_of(side, topic) == 2, timeout=SECONDS)


def test_no_client_mixes_the_two_clusters(upstream: Upstream, side: Cluster) -> None:
    theirs = AdminClient({"bootstrap.servers": upstream.kafka.bootstrap}).list_topics(timeout=SECONDS)
    ours = AdminClient({"bootstrap.servers": side.kafka}).list_topics(timeout=SECONDS)
    assert ours.cluster_id != theirs.cluster_id
    addresses = {f"{broker.host}:{broker.port}" for broker in ours.brokers.values()}
    assert addresses == {side.kafka}


def test_doctor_finds_nothing_at_a_usable_cluster(upstream: Upstream, side: Cluster) -> None:
    create(upstream, side)
    settings = upstream_settings(upstream.file(upstream.lines("SSL")), upstream.kafka.bootstrap_of("SSL"))
    assert asyncio.run(examine_upstream(settings)) == []


def test_data_with_another_log_is_refused(upstream: Upstream, tmp_path: Path) -> None:
    log = f"kafka://{upstream.kafka.bootstrap}"
    data = ["--data", str(tmp_path / "data")]
    first = Serve(tmp_path, [*data, "--log", log], "first")
    with serving([first]):
        kafka = AdminClient({"bootstrap.servers": str(first.facts["kafka"])})
        topic = create_topic(upstream.kafka)
        until(lambda: topic in kafka.list_topics(timeout=SECONDS).topics, timeout=SECONDS)
    command, environment = Serve(tmp_path, data).program
    done = subprocess.run(
        [*command, *data, "--grpc", "127.0.0.1:0", "--kafka", "none"],
        env=environment or None,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 2
    assert f"This data belongs to topics of the Kafka cluster at {upstream.kafka.bootstrap}" in done.stderr


def _set(name: str, value: str) -> Any:
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry

    return ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
