"""Errors in words of a version's time."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.gateway.kafka.dispatch.error_versions import for_version
from sharebroker_server.gateway.kafka.helpers.partition_fetch import failed

PRODUCE, FETCH, DELETE_TOPICS, INIT_PRODUCER_ID, ADD_PARTITIONS_TO_TXN, END_TXN = 0, 1, 20, 22, 24, 26


@pytest.mark.parametrize(
    ("key", "since", "error", "before"),
    [
        (PRODUCE, 4, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (PRODUCE, 11, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE),
        (FETCH, 6, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (DELETE_TOPICS, 3, ErrorCode.TOPIC_DELETION_DISABLED, ErrorCode.INVALID_REQUEST),
        (INIT_PRODUCER_ID, 4, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ADD_PARTITIONS_TO_TXN, 2, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
        (END_TXN, 2, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_older_versions_receive_the_replaced_error_code(
    key: int, since: int, error: ErrorCode, before: ErrorCode
) -> None:
    assert for_version(key, since - 1, error) is before
    assert for_version(key, since, error) is error
    assert for_version(key, 0, ErrorCode.INVALID_RECORD) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    ("version", "code"), [(5, ErrorCode.NOT_LEADER_OR_FOLLOWER), (6, ErrorCode.KAFKA_STORAGE_ERROR)]
)
def test_fetch_partitions_have_the_error_code_of_the_version(version: int, code: ErrorCode) -> None:
    answer: Any = failed(0, ErrorCode.KAFKA_STORAGE_ERROR, version)
    assert answer.error_code == code
