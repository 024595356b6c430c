"""Runs of fields of fixed size."""

from __future__ import annotations

from sharebroker_server.kafka_wire.layout import is_fixed, layout, nests_structs, runs
from sharebroker_server.kafka_wire.schema import api_schema


def test_neighbours_of_fixed_size_form_one_run() -> None:
    (partition,) = (one for one in api_schema(1).request.descendants() if one.name == "FetchPartition")
    names = [[field.name for field in run] for run in runs(partition.of(9))]
    assert names == [
        ["partition", "current_leader_epoch", "fetch_offset", "log_start_offset", "partition_max_bytes"]
    ]
    assert layout(partition.of(9)) == ">iiqqi"
    assert all(map(is_fixed, partition.of(9)))


def test_arrays_of_structs_are_found_at_any_depth() -> None:
    fetch, heartbeat = api_schema(1).request, api_schema(12).request
    topic, partition = (
        next(one for one in fetch.descendants() if one.name == name)
        for name in ("FetchTopic", "FetchPartition")
    )
    assert [nests_structs(struct, 9) for struct in (fetch, topic, partition)] == [True, True, False]
    assert not nests_structs(heartbeat, 4)
