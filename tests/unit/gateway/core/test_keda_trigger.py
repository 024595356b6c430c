"""The metadata of triggers: what is read, ignored and rejected."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.gateway.core.keda_trigger import Trigger, trigger_of
from tests.testkit.tables import each


def test_only_the_group_is_required() -> None:
    assert trigger_of({"group": "g", "scalerAddress": "gateway:9090"}) == Trigger("g", "", 100, 0)


def test_metadata_for_keda_itself_is_ignored() -> None:
    tls = ("enableTLS", "unsafeSsl", "caCert", "tlsClientCert", "tlsClientKey", "tlsCertFile")
    kedas = dict.fromkeys((*tls, "caCertFromEnv", "scalerAddress"), "true")
    assert trigger_of({"group": "g"} | kedas) == Trigger("g", "", 100, 0)


def test_every_metadata_field_is_read() -> None:
    metadata = {"group": "g", "topic": "t", "lagPerWorker": "5", "activationLag": "7"}
    assert trigger_of(metadata) == Trigger("g", "t", 5, 7)


@each(
    "metadata, field",
    [
        ({}, "group"),
        ({"group": ""}, "group"),
        ({"group": "g", "lagPerWorker": "0"}, "lagPerWorker"),
        ({"group": "g", "lagPerWorker": "many"}, "lagPerWorker"),
        ({"group": "g", "lagPerWorker": "9" * 19}, "lagPerWorker"),
        ({"group": "g", "lagPerWorker": str(2**63 // 1000 + 1)}, "lagPerWorker"),
        ({"group": "g" * 2**15}, "group"),
        ({"group": "g", "lagPerWorkr": "5"}, "lagPerWorkr"),
        ({"group": "g", "topicFromEnv": "TOPIC"}, "topicFromEnv"),
        ({"group": "g", "activationLag": "-1"}, "activationLag"),
        ({"group": "g", "activationLag": "٣"}, "activationLag"),
    ],
)
def test_invalid_metadata_is_rejected_by_field(metadata: dict[str, str], field: str) -> None:
    with pytest.raises(KafkaError) as refused:
        trigger_of(metadata)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert [violation.field for violation in refused.value.violations] == [f"scalerMetadata.{field}"]


def test_metric_name_is_valid_in_kubernetes() -> None:
    assert trigger_of({"group": "My group/1"}).metric == "sharebroker-my-group-1"


def test_invalid_topic_name_is_rejected() -> None:
    with pytest.raises(KafkaError) as refused:
        trigger_of({"group": "g", "topic": "no such/topic"})
    assert refused.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert [violation.field for violation in refused.value.violations] == ["scalerMetadata.topic"]
