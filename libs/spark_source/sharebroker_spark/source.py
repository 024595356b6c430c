"""`format("sharegroup")`: the interface that Spark calls."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from sharebroker_spark.arrow import TaskDelivery, columns_of
from sharebroker_spark.client import GatewayClient, log_spans, shared
from sharebroker_spark.core.offsets import (
    Partition,
    PlannedBatch,
    Range,
    from_json,
    split_into_tasks,
    to_json,
    unreached,
)
from sharebroker_spark.core.options import OptionError, Options, read_options, snapshot, write_options
from sharebroker_spark.driver import Driver
from sharebroker_spark.reading import frame_of, read_task
from sharebroker_spark.sink import BatchSink, StreamSink

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

FORMAT = "sharegroup"


@dataclass
class Task(InputPartition):
    """The ranges that one task reads."""

    ranges: list[Range]
    delivery: TaskDelivery


class ShareGroupDataSource(DataSource):
    """A share group as a stream, a topic as a table, and a topic as a sink."""

    @classmethod
    def name(cls) -> str:
        """Returns the name in `format`."""
        return FORMAT

    def schema(self) -> str:
        """Returns the columns; value.format determines the type of `value`."""
        columns = columns_of(read_options(self.options, streaming=False))
        return ", ".join(f"{name} {kind}" for name, kind in columns.items())

    def reader(self, schema: StructType) -> DataSourceReader:
        """Returns a reader that acquires no records."""
        return BatchReader(schema, read_options(self.options, streaming=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Returns a stream reader; for invalid options, a reader that raises the error on first use."""
        try:
            return StreamReader(schema, read_options(self.options, streaming=True))
        except OptionError as error:
            return InvalidReader(error)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Returns a writer that publishes rows."""
        if overwrite:
            raise OptionError("a topic cannot be overwritten: mode must be append")
        options, topic = write_options(self.options, _columns(schema))
        return BatchSink(options, topic)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """Returns a writer that publishes rows per micro-batch."""
        options, topic = write_options(self.options, _columns(schema))
        return StreamSink(options, topic)


class _Reading:
    """Reads tasks in a worker."""

    def __init__(self, schema: StructType, options: Options) -> None:
        self._schema = schema
        self._options = options
        frame_of(schema, options)  # reports an invalid schema in the driver

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the records of a task; may be called repeatedly."""
        if not isinstance(partition, Task):
            return  # Spark creates an empty partition if there is no task
        yield from read_task(self._options, self._schema, partition.ranges, partition.delivery)


class BatchReader(_Reading, DataSourceReader):
    """Reads a topic as of now, or between offsets."""

    def partitions(self) -> Sequence[InputPartition]:
        """Returns tasks; their number does not depend on the topic's partitions."""
        client = shared(self._options.bootstrap, waits=self._options.waits)
        spans = log_spans(client, self._options.topics)
        ranges = snapshot(spans, self._options.starting, self._options.ending)
        tasks = split_into_tasks(ranges, self._options.records_per_task, self._options.min_tasks)
        return [Task(task, TaskDelivery()) for task in tasks]


class StreamReader(_Reading, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a group's records in planned batches. The driver owns a session; workers only read."""

    def __init__(self, schema: StructType, options: Options) -> None:
        super().__init__(schema, options)
        self._session = options.session_id or uuid.uuid4().hex
        self._connected: tuple[GatewayClient, Driver] | None = None
        self._ends: dict[Partition, int] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Excludes the session, which workers do not have."""
        return {**self.__dict__, "_connected": None}

    def initialOffset(self) -> dict[str, Any]:
        """Returns the offset before the first batch of a new session."""
        return to_json(PlannedBatch(self._session))

    def getDefaultReadLimit(self) -> ReadLimit:
        """Returns maxRecordsPerTrigger as the limit."""
        return ReadMaxRows(self._options.max_records)

    def prepareForTriggerAvailableNow(self) -> None:
        """Limits the run to the current log ends."""
        self._ends = {
            partition: end
            for partition, (first, end) in log_spans(self._client(), self._options.topics).items()
            if first < end
        }

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Commits what Spark has completed and plans the next batch.

        Returns `start` if there are no records.
        """
        start_batch = from_json(start)
        batch = self._driver().plan(
            start_batch, self._ends, 0 if self._ends is not None else self._options.max_wait_ms
        )
        if batch.number == start_batch.number:
            return start
        if self._ends is not None:
            self._ends = unreached(self._ends, batch.ranges)
        return to_json(batch)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Returns counters for the query progress, since the start of the query."""
        if self._connected is None:
            return None
        driver = self._driver()
        return {"recordsLost": driver.lost, "recordsTaken": driver.taken}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Returns the tasks of a batch, always the same."""
        batch = from_json(end)
        if start == end or not batch.ranges:
            return []
        self._driver().resume(batch)
        delivery = TaskDelivery(batch.deadline_ms, self._driver().token(batch))
        tasks = split_into_tasks(batch.ranges, self._options.records_per_task, self._options.min_tasks)
        return [Task(task, delivery) for task in tasks]

    def commit(self, end: dict[str, Any]) -> None:
        """Commits a completed batch; the next plan has usually done so."""
        self._driver().commit(from_json(end))

    def _client(self) -> GatewayClient:
        return self._connect()[0]

    def _driver(self) -> Driver:
        return self._connect()[1]

    def _connect(self) -> tuple[GatewayClient, Driver]:
        if self._connected is None:
            client = GatewayClient(self._options.bootstrap, waits=self._options.waits)
            self._connected = client, Driver(self._options, client)
        return self._connected


class InvalidReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Raises the error of invalid options on first use.

    PySpark 4.3 replaces an error raised in `streamReader` by an internal one about a variable `reader`.
    """

    def __init__(self, error: OptionError) -> None:
        self._error = error

    def _fail(self, *_: Any) -> Any:
        raise self._error

    initialOffset = getDefaultReadLimit = prepareForTriggerAvailableNow = _fail
    latestOffset = partitions = read = _fail


def _columns(schema: StructType) -> Mapping[str, str]:
    return {field.name: field.dataType.simpleString() for field in schema.fields}
