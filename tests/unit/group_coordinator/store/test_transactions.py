"""Records of transactions as bytes."""

from __future__ import annotations

import pytest

from sharebroker_protocol.model import TopicIdPartition
from sharebroker_protocol.storage.v1 import transaction_pb2 as pb
from sharebroker_server.group_coordinator.core.transactions.model import (
    ProducerIdsRecord,
    Record,
    Staged,
    Transaction,
    TransactionRecord,
    TransactionState,
    Verdict,
)
from sharebroker_server.group_coordinator.store.transactions import TransactionCodec
from tests.testkit.tables import each

PARTITIONS = frozenset({TopicIdPartition("a", 0), TopicIdPartition("a", 2), TopicIdPartition("b", 0)})
RECORDS: list[Record] = [
    ProducerIdsRecord(3000),
    TransactionRecord("x", None),
    TransactionRecord("", Transaction(0, 0, 1)),
    TransactionRecord(
        "x",
        Transaction(
            0,
            0,
            1,
            staged=Staged(
                "7-9", 4, (Verdict("a", 0, 1, 2, 3), Verdict("a", 0, 5, 5, 1), Verdict("b", 1, 0, 9, 2))
            ),
        ),
    ),
    TransactionRecord("x", Transaction(0, 0, 1, staged=Staged("", 4, (), True))),
    *(
        TransactionRecord("x", Transaction(7, 3, 60_000, state, PARTITIONS, 2, 6, 8, 10, 11, 2))
        for state in TransactionState
    ),
]


@each("record", RECORDS)
def test_record_round_trip(record: Record) -> None:
    assert TransactionCodec().decode(TransactionCodec().encode(record)) == record


@pytest.mark.parametrize(
    "payload",
    [
        b"\xff",
        b"",
        pb.TransactionRecord(transactional_id="x", metadata=pb.TransactionMetadata()).SerializeToString(),
    ],
)
def test_invalid_payload_is_rejected(payload: bytes) -> None:
    with pytest.raises(ValueError, match="transaction"):
        TransactionCodec().decode(payload)
