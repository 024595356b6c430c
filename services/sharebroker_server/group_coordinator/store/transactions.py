"""Records of the transaction coordinator as protobuf (protos/sharebroker/storage/v1/transaction.proto)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from google.protobuf.message import DecodeError

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
from sharebroker_server.proto_values import Conversion, Mapped

_Status = pb.TransactionMetadata.Status

_STATUS: Final = {state: _Status.Value(f"STATUS_{state.name}") for state in TransactionState}
_STATE: Final = {status: state for state, status in _STATUS.items()}


class TransactionCodec:
    """Encodes and decodes the log entries of a transaction shard."""

    def encode(self, record: Record) -> bytes:
        """Returns the payload of a record."""
        if isinstance(record, ProducerIdsRecord):
            message = pb.TransactionRecord(producer_ids=pb.ProducerIds(end=record.end))
        else:
            metadata = None if record.transaction is None else _METADATA.message(record.transaction)
            message = pb.TransactionRecord(transactional_id=record.transactional_id, metadata=metadata)
        return message.SerializeToString()

    def decode(self, payload: bytes) -> Record:
        """Returns the record of a payload. Raises ValueError."""
        try:
            message = pb.TransactionRecord.FromString(payload)
        except DecodeError as broken:
            raise ValueError("not a transaction record") from broken
        if message.HasField("producer_ids"):
            return ProducerIdsRecord(message.producer_ids.end)
        if message.HasField("metadata"):
            return TransactionRecord(message.transactional_id, _METADATA.value(message.metadata))
        if not message.transactional_id:
            raise ValueError("a transaction record of unknown kind")
        return TransactionRecord(message.transactional_id, None)


def _partitions(partitions: frozenset[TopicIdPartition]) -> list[dict[str, Any]]:
    topics: dict[str, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        topics.setdefault(topic_id, []).append(partition)
    return [{"topic_id": topic_id, "partitions": numbers} for topic_id, numbers in topics.items()]


def _decode_state(status: _Status.ValueType) -> TransactionState:
    if status not in _STATE:
        raise ValueError(f"a transaction in unknown state {status}")
    return _STATE[status]


def _decode_partitions(topics: Iterable[pb.TransactionPartitions]) -> frozenset[TopicIdPartition]:
    return frozenset(
        TopicIdPartition(topic.topic_id, partition) for topic in topics for partition in topic.partitions
    )


def _staged(staged: Staged) -> pb.StagedBatch:
    message = pb.StagedBatch(
        batch=staged.batch, producer_epoch=staged.producer_epoch, reconciled=staged.reconciled
    )
    by_partition: dict[tuple[str, int], pb.StagedPartition] = {}
    for topic, partition, first, last, kind in staged.verdicts:
        part = by_partition.get((topic, partition))
        if part is None:
            part = by_partition[topic, partition] = message.partitions.add(topic=topic, partition=partition)
        part.first_offsets.append(first)
        part.last_offsets.append(last)
        part.types.append(kind)
    return message


def _staged_batch(message: pb.StagedBatch) -> Staged:
    verdicts = tuple(
        Verdict(part.topic, part.partition, first, last, kind)
        for part in message.partitions
        for first, last, kind in zip(part.first_offsets, part.last_offsets, part.types, strict=True)
    )
    return Staged(message.batch, message.producer_epoch, verdicts, message.reconciled)


_METADATA: Final = Conversion(
    Transaction,
    pb.TransactionMetadata,
    {
        "state": Mapped("status", encode=_STATUS.__getitem__, decode=_decode_state),
        "partitions": Mapped(encode=_partitions, decode=_decode_partitions),
        "start_ms": "start_timestamp_ms",
        "updated_ms": "last_update_timestamp_ms",
        "version": "client_transaction_version",
        "staged": Mapped(encode=_staged, decode=_staged_batch),
    },
)
