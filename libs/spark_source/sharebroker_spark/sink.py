"""Publishing rows: each task by a producer of its own, done when every record is durable. At least once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from sharebroker.blocking.producer import Producer


@dataclass
class Published(WriterCommitMessage):
    """How much a task published."""

    records: int


@dataclass
class _Publishing:
    """What a task needs: where to, and the topic; empty: each row names it."""

    address: str
    topic: str

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Published:
        """Publish rows; returns when they are durable. Raises KafkaError."""
        records = 0
        with Producer(self.address) as producer:
            waiting: list[Any] = []
            for batch in iterator:
                columns = {name: batch.column(name).to_pylist() for name in batch.schema.names}
                rows = (
                    {name: column[row] for name, column in columns.items()} for row in range(batch.num_rows)
                )
                waiting += [self._send(producer, row) for row in rows]
                records += batch.num_rows
            producer.flush()
            for sent in waiting:
                sent.result()
        return Published(records)

    def _send(self, producer: Producer, row: dict[str, Any]) -> Any:
        return producer.send(
            row.get("topic") or self.topic,
            _bytes(row["value"]),
            key=_bytes(row.get("key")),
            headers=[(one["key"], one["value"]) for one in row.get("headers") or ()],
            partition=row.get("partition"),
        )


class BatchSink(_Publishing, DataSourceArrowWriter):
    """`df.write`."""

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Nothing is left to do: records are durable when their task ends."""

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """What was published stays."""


class StreamSink(_Publishing, DataSourceStreamArrowWriter):
    """`df.writeStream`. A micro-batch that is repeated publishes its rows again."""

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing is left to do: records are durable when their task ends."""

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """What was published stays."""


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
