"""`format("sharegroup-failed")`: the failed records of share groups as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from sharebroker_spark.client import shared
from sharebroker_spark.core.options import StateOptions, state_options
from sharebroker_spark.failed_reading import COLUMNS, JournalKey, journals, read_failed
from sharebroker_spark.state_source import ROWS, as_arrow

FORMAT: Final = "sharegroup-failed"
_JOURNALS_PER_TASK: Final = 16


@dataclass
class FailedTask(InputPartition):
    """The groups and topics that one task reads."""

    keys: list[JournalKey]


class FailedRecordsDataSource(DataSource):
    """The journals of failed records."""

    @classmethod
    def name(cls) -> str:
        """Returns the name in `format`."""
        return FORMAT

    def schema(self) -> str:
        """Returns the columns."""
        state_options(self.options)
        return ", ".join(f"{name} {kind}" for name, kind in COLUMNS)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Returns a reader of the journals, which changes nothing."""
        return FailedReader(schema, state_options(self.options))


class FailedReader(DataSourceReader):
    """Reads each journal as of the time of its task."""

    def __init__(self, schema: StructType, options: StateOptions) -> None:
        self._schema = schema
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Returns tasks of equally many groups and topics."""
        client = shared(self._options.bootstrap, waits=self._options.waits)
        keys = journals(client, self._options)
        starts = range(0, len(keys), _JOURNALS_PER_TASK)
        return [FailedTask(keys[start : start + _JOURNALS_PER_TASK]) for start in starts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a task."""
        if isinstance(partition, FailedTask):  # Spark creates an empty partition if there is no task
            client = shared(self._options.bootstrap, waits=self._options.waits)
            rows = read_failed(client, partition.keys)
            schema = to_arrow_schema(self._schema, timezone="UTC")
            while page := list(islice(rows, ROWS)):
                yield as_arrow(page, schema)
