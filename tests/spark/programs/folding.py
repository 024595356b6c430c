"""Replays the logs of a group's state as the pipeline does, without starting Spark."""

from __future__ import annotations

import sys
from itertools import groupby

import pyarrow as pa

from sharebroker_server.pipeline.state_replay import KEY, LOG, folded
from sharebroker_spark.client import GatewayClient
from sharebroker_spark.core.options import state_options
from sharebroker_spark.state_reading import read_state, share_partitions
from sharebroker_spark.table_sources import as_arrow
from tests.spark.programs.session import report

ADDRESS, GROUP = sys.argv[1:]


def main() -> None:
    client = GatewayClient(ADDRESS, waits=False)
    options = state_options({"bootstrap": ADDRESS, "groups": GROUP})
    found = []
    for _, rows in groupby(
        read_state(client, share_partitions(client, options)), lambda row: row[: len(KEY)]
    ):
        (row,) = folded(pa.Table.from_batches([as_arrow(list(rows), LOG)])).to_pylist()
        for one in row["differences"]:
            span = "" if one["first_offset"] is None else f"{one['first_offset']} to {one['last_offset']}: "
            found.append(f"{row['topic']}-{row['partition']}: {span}{one['text']}")
    client.close()
    report(differences=found)


main()
