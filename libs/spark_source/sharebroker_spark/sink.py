"""Publishes rows: each task has its own producer and ends when its records are durable. At least once.

With transactions each task attempt is one transaction, which the driver commits when all tasks are done. The
next attempt aborts the transaction of a failed one.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_spark.client import GatewayClient, shared
from sharebroker_spark.core.options import Options
from sharebroker_spark.publishing import SinkTransaction, TaskPublisher, end

_COLUMNS: Final = ("topic", "value", "key", "headers", "partition")


@dataclass
class Published(WriterCommitMessage):
    """The records and bytes (of keys and values) that a task published."""

    records: int
    bytes: int
    transaction: SinkTransaction | None


@dataclass
class _Publishing:
    """The options of a task, and the topic (empty: each row names it). `job` is a unique name."""

    options: Options
    topic: str
    job: str = field(default_factory=lambda: uuid.uuid4().hex)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Published:
        """Publishes rows; returns when they are durable. Raises KafkaError."""
        name = f"spark/{self._owner()}/{TaskContext.get().partitionId()}" if self.options.transactions else ""
        publisher = TaskPublisher(self._client(), name, self.options.transaction_timeout_ms)
        for batch in iterator:
            for row in zip(*(_column(batch, name) for name in _COLUMNS), strict=True):
                self._send(publisher, *row)
        publisher.flush()
        return Published(publisher.records, publisher.bytes, publisher.transaction)

    def _owner(self) -> str:
        return self.job

    def _client(self) -> GatewayClient:
        return shared(self.options.bootstrap, waits=self.options.waits)

    def _end(self, messages: Sequence[WriterCommitMessage | None], *, committed: bool) -> None:
        for message in messages:
            if isinstance(message, Published) and message.transaction is not None:
                end(self._client(), message.transaction, committed=committed)

    def _send(
        self,
        publisher: TaskPublisher,
        topic: str | None,
        value: Any,
        key: Any,
        headers: Any,
        partition: int | None,
    ) -> None:
        named = [_header(message) for message in headers] if headers else ()
        publisher.send(self.topic or topic or "", _bytes(value), _bytes(key), named, partition)


class BatchSink(_Publishing, DataSourceArrowWriter):
    """The sink of `df.write`."""

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commits the transactions, and reports the number of records."""
        self._end(messages, committed=True)
        _report("", messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Aborts the transactions; without transactions, published records remain."""
        self._end(messages, committed=False)


class StreamSink(_Publishing, DataSourceStreamArrowWriter):
    """The sink of `df.writeStream`. A repeated micro-batch publishes its rows again."""

    def _owner(self) -> str:
        """Returns the query id, which survives a restart.

        Open transactions are thus aborted at once, not by timeout.
        """
        return str(TaskContext.get().getLocalProperty("sql.streaming.queryId") or self.job)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Commits the transactions, and reports the number of records."""
        self._end(messages, committed=True)
        _report(f" of batch {batchId}", messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Aborts the transactions; without transactions, published records remain."""
        self._end(messages, committed=False)


def _column(batch: pa.RecordBatch, name: str) -> list[Any]:
    """Returns a column, or nulls if it does not exist."""
    if name not in batch.schema.names:
        return [None] * batch.num_rows
    values: list[Any] = batch.column(name).to_pylist()
    return values


def _header(header: Mapping[str, Any] | None) -> tuple[str, bytes | None]:
    if header is None or header["key"] is None:
        raise KafkaError(ErrorCode.INVALID_RECORD, "Column headers contains a header without a key.")
    return header["key"], header["value"]


def _report(suffix: str, messages: Sequence[WriterCommitMessage | None]) -> None:
    """Writes to standard error at any log level: Spark has no metrics for such sinks."""
    published = [message for message in messages if isinstance(message, Published)]
    records, size = sum(message.records for message in published), sum(message.bytes for message in published)
    sys.stderr.write(
        f"sharebroker: published {records} records{suffix}, {size} bytes of keys and values, "
        f"by {len(published)} tasks\n"
    )
    sys.stderr.flush()


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
