"""Publish, acquire and acknowledge with grpcurl, for users without a client library."""

from __future__ import annotations

from uuid import uuid4

import pytest

from tests.support.grpcurl import acknowledge, acquire, call, grpcurl, needs_grpcurl, read_from_the_start
from tests.testkit.brokers import Cluster

pytestmark = [needs_grpcurl, pytest.mark.xdist_group("grpcurl")]


@pytest.fixture
def topic(server: str) -> str:
    name = f"grpcurl-{uuid4().hex[:8]}"
    call(server, "AdminService/CreateTopics", {"topics": [{"name": name, "num_partitions": 1}]})
    read_from_the_start(server, name)
    return name


def test_records_are_published_acquired_and_acknowledged(server: str, topic: str) -> None:
    records = [{"text": "a"}, {"text": "b"}, {"text": "c"}]
    published = call(server, "ProduceService/Publish", {"topic": topic, "records": records})
    assert len(published["positions"]) == 3
    acquired = acquire(server, topic)
    assert [record["text"] for record in acquired["records"]] == ["a", "b", "c"]
    kinds = ["ACCEPT", "REJECT", "RELEASE"]
    results = acknowledge(server, topic, acquired, kinds)
    assert [result.get("error_code") for result in results] == [None, None, None]
    again = acquire(server, topic)["records"]
    assert [(record["text"], record["delivery_count"]) for record in again] == [("c", 2)]
    late = acknowledge(server, topic, acquired, kinds)
    assert {result["error_code"] for result in late} == {"ERROR_CODE_INVALID_RECORD_STATE"}


def test_error_shows_its_details(server: str) -> None:
    done = grpcurl(
        server,
        "sharebroker.gateway.v1.ProduceService/Publish",
        data={"topic": "nowhere", "records": [{"text": "x"}]},
    )
    assert done.returncode != 0
    assert "UNKNOWN_TOPIC_OR_PARTITION" in done.stderr
    assert '"domain": "sharebroker"' in done.stderr


def test_every_service_is_listed_and_healthy(cluster: Cluster) -> None:
    for process in cluster.processes:
        listed = grpcurl(process.address, "list").stdout.split()
        ours = [name for name in listed if name.startswith("sharebroker.")]
        assert ours
        for name in ours:
            health = grpcurl(process.address, "grpc.health.v1.Health/Check", data={"service": name})
            assert '"SERVING"' in health.stdout, (name, health.stderr)
