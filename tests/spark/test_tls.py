"""Source and sink against a server that accepts TLS alone, and requires a client certificate."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from sharebroker import Admin
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.transaction_coordinator.v1 import transaction_coordinator_pb2 as transactions
from sharebroker_spark.client import GatewayClient
from sharebroker_spark.core.offsets import PlannedBatch
from sharebroker_spark.core.options import read_options, state_options
from sharebroker_spark.core.verdicts import VerdictRange
from sharebroker_spark.driver import Driver
from sharebroker_spark.publishing import TaskPublisher
from sharebroker_spark.staging import stage
from sharebroker_spark.state_reading import read_state, share_partitions
from tests.spark.environment import needs_spark, running
from tests.testkit.brokers import Cluster, one_process
from tests.testkit.certificates import Authority
from tests.testkit.issuer import AUDIENCE, ISSUER, Issuer, jwk, jwk_set, token
from tests.testkit.secured import secured

TOPIC, GROUP = "orders", "billing"


@dataclass(frozen=True)
class Place:
    """A server, a client certificate that it trusts, and one that it does not."""

    cluster: Cluster
    address: str
    stranger: str


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("tls")
    authority, others = Authority.make(folder / "ours"), Authority.make(folder / "others")
    broker, spark = authority.issue("broker", "127.0.0.1"), authority.issue("spark", "spark.example")
    stranger = others.issue("stranger", "spark.example")
    options = [f"--tls-cert={broker.certificate}", f"--tls-key={broker.key}", f"--tls-ca={authority.file}"]
    with one_process(*options, "--set=ssl.client.auth=required") as cluster:
        at = f"tls://{cluster.address}?ca={authority.file}"
        place = Place(cluster, f"{at}&cert={spark.certificate}&key={spark.key}",
                      f"{at}&cert={stranger.certificate}&key={stranger.key}")  # fmt: skip
        with Admin(place.address) as admin:
            admin.create_topic(TOPIC, 1)
            admin.alter_group_configs(GROUP, {"share.auto.offset.reset": "earliest"})
        with closing(GatewayClient(place.address, waits=True)) as client:
            publisher = TaskPublisher(client)
            for number in range(10):
                publisher.send(TOPIC, b"%d" % number)
            publisher.flush()
        yield place


def test_written_records_are_planned_judged_and_committed(place: Place) -> None:
    given = {"bootstrap": place.address, "group": GROUP, "topics": TOPIC}
    with closing(GatewayClient(place.address, waits=True)) as client:
        driver = Driver(read_options(given, streaming=True), client)
        batch = driver.plan(PlannedBatch("s"), None, 0)
        assert [(one.first, one.last) for one in batch.ranges] == [(0, 9)]
        stage(client, driver.token(batch), [VerdictRange(TOPIC, 0, 9, 9, 2)])
        again = driver.plan(batch, None, 0)
        assert [(one.first, one.delivery_count) for one in again.ranges] == [(9, 2)]
        driver.commit(again)
        driver.close()
        places = share_partitions(client, state_options({"bootstrap": place.address}))
        assert [row[4] for row in read_state(client, places)][-1] == "answer"


def test_source_authenticates_with_the_token_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    with Issuer(jwk_set(jwk("RS256", "1"))).serving() as issuer:
        options = (
            "--set=sasl.enabled.mechanisms=OAUTHBEARER,SCRAM-SHA-256",
            f"--set=sasl.oauthbearer.jwks.endpoint.url={issuer.url}",
            f"--set=sasl.oauthbearer.expected.issuer={ISSUER}",
            f"--set=sasl.oauthbearer.expected.audience={AUDIENCE}",
        )
        with secured(one_process, tmp_path / "secured", *options) as place:
            file.write_text(token())
            given = {"bootstrap": f"{place.address(None)}&token_file={file}", "topics": TOPIC}
            address = read_options(given, streaming=False).bootstrap
            with closing(GatewayClient(address, waits=False)) as client:
                request = transactions.InitProducerIdRequest()
                client.try_once(client.produce.InitProducerId, request, 30.0)
                file.write_text(token(aud="elsewhere"))
                with pytest.raises(KafkaError) as caught:
                    client.try_once(client.produce.InitProducerId, request, 30.0)
    assert caught.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED


@needs_spark
async def test_tasks_read_over_tls(place: Place, tmp_path: Path) -> None:
    with running("ranges", tmp_path / "ranges", place.address, f"{TOPIC}:2:4") as program:
        (read,) = await asyncio.to_thread(program.wait_for_value, "read")
    assert read["strict"] == [[2, "2"], [3, "3"], [4, "4"]]


@pytest.mark.parametrize("who", ["a stranger", "absent"])
def test_untrusted_client_is_rejected(place: Place, who: str) -> None:
    address = place.stranger if who == "a stranger" else place.address.partition("&")[0]
    client = GatewayClient(address, waits=False)
    try:
        with pytest.raises(KafkaError):
            client.try_once(client.produce.InitProducerId, transactions.InitProducerIdRequest(), 10.0)
    finally:
        client.close()
