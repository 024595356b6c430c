"""Checks of transactions."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.catalog.names import OFFSETS_TOPIC
from sharebroker_server.gateway.kafka.call import Call
from sharebroker_server.gateway.kafka.transactions import (
    check_transactional_id,
    known_partitions,
    transaction_version,
)
from tests.unit.gateway.fakes import TOPIC


def test_a_transactional_id_is_required(call: Call) -> None:
    check_transactional_id(call, "t")
    with pytest.raises(KafkaError) as error:
        check_transactional_id(call, "")
    assert error.value.code is ErrorCode.INVALID_REQUEST


def test_the_api_version_implies_the_transaction_version(call: Call) -> None:
    assert transaction_version(call, implied=True) == 2
    assert transaction_version(call, implied=False) == 0


def test_known_partitions_have_topic_ids(call: Call) -> None:
    assert list(known_partitions(call, TOPIC.name, [1, 0])) == [
        TopicIdPartition(TOPIC.topic_id, 1),
        TopicIdPartition(TOPIC.topic_id, 0),
    ]


@pytest.mark.parametrize(("name", "index"), [("unknown", 0), (TOPIC.name, 2), (OFFSETS_TOPIC, 0)])
def test_unknown_and_internal_partitions_are_errors(call: Call, name: str, index: int) -> None:
    with pytest.raises(KafkaError):
        list(known_partitions(call, name, [index]))
