"""`format("sharegroup-state")`: the logs of share-group state as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from sharebroker_spark.client import shared
from sharebroker_spark.core.options import StateOptions, state_options
from sharebroker_spark.core.state_rows import COLUMNS, Row, StateRowKey
from sharebroker_spark.state_reading import read_state, share_partitions

FORMAT: Final = "sharegroup-state"
ROWS: Final = 10_000
"""Rows of an Arrow batch."""
_SHARE_PARTITIONS_PER_TASK: Final = 64


@dataclass
class StateTask(InputPartition):
    """The share-partitions that one task reads."""

    partition_list: list[StateRowKey]


class ShareStateDataSource(DataSource):
    """Checkpoints and deltas of share groups, and the coordinator's state in memory."""

    @classmethod
    def name(cls) -> str:
        """Returns the name in `format`."""
        return FORMAT

    def schema(self) -> str:
        """Returns the columns."""
        state_options(self.options)
        return ", ".join(f"{name} {kind}" for name, kind in COLUMNS)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Returns a reader of the logs, which changes nothing."""
        return StateReader(schema, state_options(self.options))


class StateReader(DataSourceReader):
    """Reads each share-partition as of the time of its task."""

    def __init__(self, schema: StructType, options: StateOptions) -> None:
        self._schema = schema
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Returns tasks of equally many share-partitions."""
        client = shared(self._options.bootstrap, waits=self._options.waits)
        partition_list = share_partitions(client, self._options)
        starts = range(0, len(partition_list), _SHARE_PARTITIONS_PER_TASK)
        return [StateTask(partition_list[start : start + _SHARE_PARTITIONS_PER_TASK]) for start in starts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a task."""
        if isinstance(partition, StateTask):  # Spark creates an empty partition if there is no task
            client = shared(self._options.bootstrap, waits=self._options.waits)
            rows = read_state(client, partition.partition_list)
            schema = to_arrow_schema(self._schema, timezone="UTC")
            while page := list(islice(rows, ROWS)):
                yield as_arrow(page, schema)


def as_arrow(rows: Sequence[Row], schema: pa.Schema) -> pa.RecordBatch:
    """Returns rows as an Arrow batch."""
    columns: list[tuple[Any, ...]] = list(zip(*rows, strict=True))
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
