"""`format("sharegroup")`: what Spark calls."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from sharebroker_spark.arrow import Delivery, Frame, columns_of
from sharebroker_spark.client import Client, shared
from sharebroker_spark.core.offsets import Batch, Partition, Range, from_json, to_json
from sharebroker_spark.core.options import OptionError, Options, reading, writing
from sharebroker_spark.core.tasks import cut, snapshot, unreached
from sharebroker_spark.driver import Driver
from sharebroker_spark.positions import log_spans
from sharebroker_spark.reading import Reading, read_ranges
from sharebroker_spark.sink import BatchSink, StreamSink
from sharebroker_spark.staging import LeftOut

FORMAT = "sharegroup"


@dataclass
class Task(InputPartition):
    """What one task reads."""

    ranges: list[Range]
    delivery: Delivery


class ShareGroupDataSource(DataSource):
    """A share group as a stream, a topic as a table, and a topic to write to."""

    @classmethod
    def name(cls) -> str:
        """The name in `format`."""
        return FORMAT

    def schema(self) -> str:
        """The columns; that of `value` follows value.format."""
        columns = columns_of(reading(self.options, streaming=False))
        return ", ".join(f"{name} {kind}" for name, kind in columns.items())

    def reader(self, schema: StructType) -> DataSourceReader:
        """A read that takes nothing from anybody."""
        return BatchReader(schema, reading(self.options, streaming=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """A member of the group; for options that cannot be, what says so when it is asked."""
        try:
            return StreamReader(schema, reading(self.options, streaming=True))
        except OptionError as error:
            return RefusedReader(error)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Publishes rows."""
        if overwrite:
            raise OptionError("a topic cannot be overwritten: mode must be append")
        options, topic = writing(self.options, _columns(schema))
        return BatchSink(options, topic)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """Publishes rows, micro-batch for micro-batch."""
        options, topic = writing(self.options, _columns(schema))
        return StreamSink(options, topic)


class _Reading:
    """Reads tasks, in a worker."""

    def __init__(self, schema: StructType, options: Options) -> None:
        self._schema = schema
        self._options = options
        Frame(to_arrow_schema(schema, timezone="UTC"), options)  # what cannot be read is said here

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of a task; may be called as often as Spark likes."""
        if not isinstance(partition, Task):
            return  # Spark makes one of its own where there is no task
        frame = Frame(to_arrow_schema(self._schema, timezone="UTC"), self._options)
        client = shared(self._options.bootstrap, waits=self._options.waits)
        left_out = LeftOut(client, partition.delivery.token)
        how = Reading(self._options.fails_on_data_loss, left_out.add)
        for batch in read_ranges(client, partition.ranges, frame, partition.delivery, how):
            left_out.stage()
            yield batch


class BatchReader(_Reading, DataSourceReader):
    """A topic as it is now, or between offsets."""

    def partitions(self) -> Sequence[InputPartition]:
        """Tasks, whatever partitions the topic has."""
        client = shared(self._options.bootstrap, waits=self._options.waits)
        spans = log_spans(client, self._options.topics)
        ranges = snapshot(spans, self._options.starting, self._options.ending)
        tasks = cut(ranges, self._options.records_per_task, self._options.min_tasks)
        return [Task(task, Delivery()) for task in tasks]


class StreamReader(_Reading, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The group's records in planned batches. In the driver it speaks for a session; workers only read."""

    def __init__(self, schema: StructType, options: Options) -> None:
        super().__init__(schema, options)
        self._session = options.session_id or uuid.uuid4().hex
        self._made: tuple[Client, Driver] | None = None
        self._ends: dict[Partition, int] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Workers have no session."""
        return {**self.__dict__, "_made": None}

    def initialOffset(self) -> dict[str, Any]:
        """Before the first batch of a new session."""
        return to_json(Batch(self._session))

    def getDefaultReadLimit(self) -> ReadLimit:
        """At most maxRecordsPerTrigger."""
        return ReadMaxRows(self._options.max_records)

    def prepareForTriggerAvailableNow(self) -> None:
        """Go no further than the logs reach now."""
        self._ends = {
            part: end
            for part, (first, end) in log_spans(self._client(), self._options.topics).items()
            if first < end
        }

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Commit what Spark has done, and plan what is next; `start` where there is nothing."""
        begun = from_json(start)
        batch = self._driver().plan(
            begun, self._ends, 0 if self._ends is not None else self._options.max_wait_ms
        )
        if batch.number == begun.number:
            return start
        if self._ends is not None:
            self._ends = unreached(self._ends, batch.ranges)
        return to_json(batch)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """What a query's progress shows as the source's latest offset: counts since the query was started."""
        if self._made is None:
            return None
        driver = self._driver()
        return {"recordsLost": driver.lost, "recordsTaken": driver.taken}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of a batch, the same whenever it is asked for."""
        batch = from_json(end)
        if start == end or not batch.ranges:
            return []
        self._driver().resume(batch)
        delivery = Delivery(batch.deadline_ms, self._driver().token(batch))
        tasks = cut(batch.ranges, self._options.records_per_task, self._options.min_tasks)
        return [Task(task, delivery) for task in tasks]

    def commit(self, end: dict[str, Any]) -> None:
        """Spark has done it; mostly it was committed with the next plan already."""
        self._driver().commit(from_json(end))

    def _client(self) -> Client:
        return self._parts()[0]

    def _driver(self) -> Driver:
        return self._parts()[1]

    def _parts(self) -> tuple[Client, Driver]:
        if self._made is None:
            client = Client(self._options.bootstrap, waits=self._options.waits)
            self._made = client, Driver(self._options, client)
        return self._made


class RefusedReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Says why there is no stream at whatever is asked first.

    PySpark 4.3 ends what `streamReader` raises with an error of its own, about a variable `reader`.
    """

    def __init__(self, error: OptionError) -> None:
        self._error = error

    def initialOffset(self) -> dict[str, Any]:
        """Raises OptionError, as the others do."""
        raise self._error

    def getDefaultReadLimit(self) -> ReadLimit:
        """Asked first of a query that goes on."""
        raise self._error

    def prepareForTriggerAvailableNow(self) -> None:
        """Asked first with this trigger."""
        raise self._error

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Not come to."""
        raise self._error

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Asked first where a batch was planned that is not done."""
        raise self._error

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Not come to."""
        raise self._error


def _columns(schema: StructType) -> Mapping[str, str]:
    return {field.name: field.dataType.simpleString() for field in schema.fields}
