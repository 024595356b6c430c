"""Records of the transaction coordinator as protobuf (protos/sharebroker/storage/v1/transaction.proto)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

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

_Status = pb.TransactionMetadata.Status

_STATUS: Final = {state: _Status.Value(f"STATUS_{state.name}") for state in TransactionState}
_STATE: Final = {status: state for state, status in _STATUS.items()}


class TransactionCodec:
    """Encodes and decodes the log entries of a transaction shard."""

    def encode(self, record: Record) -> bytes:
        """Returns the payload of a record."""
        message = pb.TransactionRecord()
        if isinstance(record, ProducerIdsRecord):
            message.producer_ids.end = record.end
        else:
            message.transactional_id = record.transactional_id
            if record.transaction is not None:
                message.metadata.CopyFrom(_metadata(record.transaction))
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
            return TransactionRecord(message.transactional_id, _transaction(message.metadata))
        if not message.transactional_id:
            raise ValueError("a transaction record of unknown kind")
        return TransactionRecord(message.transactional_id, None)


def _metadata(transaction: Transaction) -> pb.TransactionMetadata:
    return pb.TransactionMetadata(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        timeout_ms=transaction.timeout_ms,
        status=_STATUS[transaction.state],
        partitions=_partitions(transaction.partitions),
        last_producer_epoch=transaction.last_producer_epoch,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        start_timestamp_ms=transaction.start_ms,
        last_update_timestamp_ms=transaction.updated_ms,
        client_transaction_version=transaction.version,
        staged=_staged(transaction.staged) if transaction.staged is not None else None,
    )


def _partitions(partitions: frozenset[TopicIdPartition]) -> Iterator[pb.TransactionPartitions]:
    topics: dict[str, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        topics.setdefault(topic_id, []).append(partition)
    for topic_id, numbers in topics.items():
        yield pb.TransactionPartitions(topic_id=topic_id, partitions=numbers)


def _transaction(metadata: pb.TransactionMetadata) -> Transaction:
    state = _STATE.get(metadata.status)
    if state is None:
        raise ValueError(f"a transaction in unknown state {metadata.status}")
    return Transaction(
        metadata.producer_id,
        metadata.producer_epoch,
        metadata.timeout_ms,
        state,
        frozenset(
            TopicIdPartition(topic.topic_id, partition)
            for topic in metadata.partitions
            for partition in topic.partitions
        ),
        metadata.last_producer_epoch,
        metadata.previous_producer_id,
        metadata.next_producer_id,
        metadata.start_timestamp_ms,
        metadata.last_update_timestamp_ms,
        metadata.client_transaction_version,
        _staged_batch(metadata.staged) if metadata.HasField("staged") else None,
    )


def _staged(staged: Staged) -> pb.StagedBatch:
    message = pb.StagedBatch(
        batch=staged.batch, producer_epoch=staged.producer_epoch, settled=staged.reconciled
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
    return Staged(message.batch, message.producer_epoch, verdicts, message.settled)
