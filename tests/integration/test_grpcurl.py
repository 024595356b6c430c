"""Publish, acquire and acknowledge with grpcurl, for users without a client library.

grpcurl is optional: `make grpcurl` builds it (needs Go).
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.testkit.brokers import Cluster

_CACHED = Path(__file__).parents[2] / ".cache" / "bin" / "grpcurl"
GRPCURL = str(_CACHED) if _CACHED.exists() else shutil.which("grpcurl")

pytestmark = [
    pytest.mark.skipif(GRPCURL is None, reason="grpcurl is not here: `make grpcurl` brings it"),
    pytest.mark.xdist_group("grpcurl"),
]


def grpcurl(*arguments: str, data: object = None) -> subprocess.CompletedProcess[str]:
    body = [] if data is None else ["-d", json.dumps(data)]
    command = [str(GRPCURL), "-plaintext", "-max-time", "20", *body, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)


def call(address: str, method: str, data: object) -> Any:
    done = grpcurl(address, f"sharebroker.gateway.v1.{method}", data=data)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout or "{}")


@pytest.fixture
def topic(server: str) -> str:
    name = f"grpcurl-{uuid4().hex[:8]}"
    call(server, "AdminService/CreateTopics", {"topics": [{"name": name, "num_partitions": 1}]})
    from_the_start = {
        "resource_type": "RESOURCE_TYPE_GROUP",
        "resource_name": name,
        "configs": [{"name": "share.auto.offset.reset", "value": "earliest"}],
    }
    call(server, "AdminService/IncrementalAlterConfigs", {"resources": [from_the_start]})
    return name


def acquire(server: str, topic: str, most: int = 10) -> Any:
    asked = {
        "group_id": topic,
        "topics": [topic],
        "max_records": most,
        "max_wait_ms": 10_000,
        "as_text": True,
    }
    return call(server, "ShareService/Acquire", asked)


def test_records_are_published_acquired_and_acknowledged(server: str, topic: str) -> None:
    records = [{"text": "a"}, {"text": "b"}, {"text": "c"}]
    published = call(server, "ProduceService/Publish", {"topic": topic, "records": records})
    assert len(published["positions"]) == 3
    acquired = acquire(server, topic)
    assert [record["text"] for record in acquired["records"]] == ["a", "b", "c"]
    kinds = ["ACKNOWLEDGE_TYPE_ACCEPT", "ACKNOWLEDGE_TYPE_REJECT", "ACKNOWLEDGE_TYPE_RELEASE"]
    decisions = [
        {
            "topic": topic,
            "partition": record.get("partition", 0),
            "offset": record.get("offset", 0),
            "lock_token": record["lock_token"],
            "type": kind,
        }
        for record, kind in zip(acquired["records"], kinds, strict=True)
    ]
    asked = {"group_id": topic, "member_id": acquired["member_id"], "acknowledgements": decisions}
    results = call(server, "ShareService/Acknowledge", asked)["results"]
    assert [result.get("error_code") for result in results] == [None, None, None]
    again = acquire(server, topic)["records"]
    assert [(record["text"], record["delivery_count"]) for record in again] == [("c", 2)]
    late = call(server, "ShareService/Acknowledge", asked)["results"]
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
