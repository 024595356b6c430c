"""`format("sharegroup-state")` and `format("sharegroup-failed")`: state logs and failed records as tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, Final, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from sharebroker_spark import failed_reading, state_reading
from sharebroker_spark.client import GatewayClient, shared
from sharebroker_spark.core import state_rows
from sharebroker_spark.core.options import StateOptions, state_options
from sharebroker_spark.core.state_rows import Row

_ROWS: Final = 10_000
"""Rows of an Arrow batch."""


class GroupTable(NamedTuple):
    """A table that is read key by key. Both functions raise KafkaError."""

    name: str
    columns: Sequence[tuple[str, str]]
    """Column names with their Spark types."""
    keys: Callable[[GatewayClient, StateOptions], Sequence[Any]]
    rows: Callable[[GatewayClient, Sequence[Any]], Iterator[Row]]
    keys_per_task: int


_STATE: Final = GroupTable(
    "sharegroup-state", state_rows.COLUMNS, state_reading.share_partitions, state_reading.read_state, 64
)
_FAILED: Final = GroupTable(
    "sharegroup-failed", failed_reading.COLUMNS, failed_reading.journals, failed_reading.read_failed, 16
)


@dataclass
class TableTask(InputPartition):
    """The keys that one task reads."""

    keys: Sequence[Any]


class TableReader(DataSourceReader):
    """Reads the rows of each key as of the time of its task. Reading changes nothing."""

    def __init__(self, table: GroupTable, schema: StructType, options: StateOptions) -> None:
        self._table = table
        self._schema = schema
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Returns tasks of equally many keys."""
        keys, size = self._table.keys(self._client(), self._options), self._table.keys_per_task
        return [TableTask(keys[start : start + size]) for start in range(0, len(keys), size)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a task."""
        if isinstance(partition, TableTask):  # Spark creates an empty partition if there is no task
            rows = self._table.rows(self._client(), partition.keys)
            schema = to_arrow_schema(self._schema, timezone="UTC")
            while page := list(islice(rows, _ROWS)):
                yield as_arrow(page, schema)

    def _client(self) -> GatewayClient:
        return shared(self._options.bootstrap, waits=self._options.waits)


class _TableDataSource(DataSource):
    table: ClassVar[GroupTable]

    @classmethod
    def name(cls) -> str:
        """Returns the name in `format`."""
        return cls.table.name

    def schema(self) -> str:
        """Returns the columns. Raises OptionError."""
        state_options(self.options)
        return ", ".join(f"{name} {kind}" for name, kind in self.table.columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Returns a reader of the table. Raises OptionError."""
        return TableReader(self.table, schema, state_options(self.options))


class ShareStateDataSource(_TableDataSource):
    """Checkpoints and deltas of share groups, and the coordinator's state in memory."""

    table = _STATE


class FailedRecordsDataSource(_TableDataSource):
    """The journals of failed records."""

    table = _FAILED


def as_arrow(rows: Sequence[Row], schema: pa.Schema) -> pa.RecordBatch:
    """Returns rows as an Arrow batch."""
    columns: list[tuple[Any, ...]] = list(zip(*rows, strict=True))
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
