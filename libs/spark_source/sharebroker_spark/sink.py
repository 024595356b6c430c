"""Publishing rows: each task by a producer of its own, done when every record is durable. At least once.

With transactions, each task attempt is one, which the driver commits when all tasks are done: what an attempt
sent that failed is aborted by the next.
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
from sharebroker_spark.client import Client, shared
from sharebroker_spark.core.options import Options
from sharebroker_spark.publishing import Publisher, Transaction, end

_COLUMNS: Final = ("topic", "value", "key", "headers", "partition")


@dataclass
class Published(WriterCommitMessage):
    """How much a task published; bytes are those of keys and values."""

    records: int
    bytes: int
    transaction: Transaction | None


@dataclass
class _Publishing:
    """What a task needs: where to, and the topic; empty: each row names it. `job` is a name of its own."""

    options: Options
    topic: str
    job: str = field(default_factory=lambda: uuid.uuid4().hex)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Published:
        """Publish rows; returns when they are durable. Raises KafkaError."""
        name = f"spark/{self._owner()}/{TaskContext.get().partitionId()}" if self.options.transactions else ""
        publisher = Publisher(self._client(), name, self.options.transaction_timeout_ms)
        for batch in iterator:
            for row in zip(*(_column(batch, name) for name in _COLUMNS), strict=True):
                self._send(publisher, *row)
        publisher.flush()
        return Published(publisher.records, publisher.bytes, publisher.transaction)

    def _owner(self) -> str:
        return self.job

    def _client(self) -> Client:
        return shared(self.options.bootstrap, waits=self.options.waits)

    def _end(self, messages: Sequence[WriterCommitMessage | None], *, committed: bool) -> None:
        for one in messages:
            if isinstance(one, Published) and one.transaction is not None:
                end(self._client(), one.transaction, committed=committed)

    def _send(
        self,
        publisher: Publisher,
        topic: str | None,
        value: Any,
        key: Any,
        headers: Any,
        partition: int | None,
    ) -> None:
        named = [_header(one) for one in headers] if headers else ()
        publisher.send(self.topic or topic or "", _bytes(value), _bytes(key), named, partition)


class BatchSink(_Publishing, DataSourceArrowWriter):
    """`df.write`."""

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Tell how much was published; records are durable when their task ends."""
        self._end(messages, committed=True)
        _tell("", messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """What was published stays, unless by transactions."""
        self._end(messages, committed=False)


class StreamSink(_Publishing, DataSourceStreamArrowWriter):
    """`df.writeStream`. A micro-batch that is repeated publishes its rows again."""

    def _owner(self) -> str:
        """The query, also after a restart: what it left open is aborted at once and not by time."""
        return str(TaskContext.get().getLocalProperty("sql.streaming.queryId") or self.job)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Tell how much was published; records are durable when their task ends."""
        self._end(messages, committed=True)
        _tell(f" of batch {batchId}", messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """What was published stays, unless by transactions."""
        self._end(messages, committed=False)


def _column(batch: pa.RecordBatch, name: str) -> list[Any]:
    """A column; nulls where there is none."""
    if name not in batch.schema.names:
        return [None] * batch.num_rows
    values: list[Any] = batch.column(name).to_pylist()
    return values


def _header(header: Mapping[str, Any] | None) -> tuple[str, bytes | None]:
    if header is None or header["key"] is None:
        raise KafkaError(ErrorCode.INVALID_RECORD, "Column headers has a header without a key.")
    return header["key"], header["value"]


def _tell(what: str, messages: Sequence[WriterCommitMessage | None]) -> None:
    """Into standard error, whatever the level of loggers: Spark has no metrics for such sinks."""
    done = [one for one in messages if isinstance(one, Published)]
    records, size = sum(one.records for one in done), sum(one.bytes for one in done)
    sys.stderr.write(
        f"sharebroker: published {records} records{what}, {size} bytes of keys and values, "
        f"by {len(done)} tasks\n"
    )
    sys.stderr.flush()


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
