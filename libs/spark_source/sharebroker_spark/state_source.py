"""`format("sharegroup-state")`: the log of groups' durable state as a table."""

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
from sharebroker_spark.core.state_options import StateOptions, state_options
from sharebroker_spark.core.state_rows import COLUMNS, Row, SharePartition
from sharebroker_spark.state_reading import read_state, share_partitions

FORMAT: Final = "sharegroup-state"
_ROWS: Final = 10_000
_SHARE_PARTITIONS_A_TASK: Final = 64


@dataclass
class StateTask(InputPartition):
    """The share-partitions that one task asks for."""

    places: list[SharePartition]


class ShareStateDataSource(DataSource):
    """Checkpoints and deltas of share groups, and beside them what the coordinator answers from."""

    @classmethod
    def name(cls) -> str:
        """The name in `format`."""
        return FORMAT

    def schema(self) -> str:
        """The columns."""
        state_options(self.options)
        return ", ".join(f"{name} {kind}" for name, kind in COLUMNS)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A look at the logs, which changes nothing."""
        return StateReader(schema, state_options(self.options))


class StateReader(DataSourceReader):
    """Reads each share-partition as it is when its task comes to it."""

    def __init__(self, schema: StructType, options: StateOptions) -> None:
        self._schema = schema
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Tasks of so many share-partitions."""
        client = shared(self._options.bootstrap, waits=self._options.waits)
        places = share_partitions(client, self._options)
        starts = range(0, len(places), _SHARE_PARTITIONS_A_TASK)
        return [StateTask(places[start : start + _SHARE_PARTITIONS_A_TASK]) for start in starts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task."""
        if isinstance(partition, StateTask):  # Spark makes one of its own where there is no task
            client = shared(self._options.bootstrap, waits=self._options.waits)
            rows = read_state(client, partition.places)
            schema = to_arrow_schema(self._schema, timezone="UTC")
            while some := list(islice(rows, _ROWS)):
                yield as_arrow(some, schema)


def as_arrow(rows: Sequence[Row], schema: pa.Schema) -> pa.RecordBatch:
    """Rows as Spark wants them."""
    columns: list[tuple[Any, ...]] = list(zip(*rows, strict=True))
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
