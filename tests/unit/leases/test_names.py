"""Names of resources."""

from __future__ import annotations

from sharebroker_server.leases import names


def test_shards_and_partitions_have_resource_names() -> None:
    assert names.shards("share-coordinator", 2) == ["share-coordinator:0", "share-coordinator:1"]
    assert names.partitions("t", 2) == ["partition:t:0", "partition:t:1"]
    assert names.topic_partition(names.partition("t", 7)) == ("t", 7)


def test_every_kind_has_a_role() -> None:
    resources = (names.CATALOG, names.shard(names.TRANSACTIONS, 1), names.partition("t", 0))
    assert [names.ROLE_BY_KIND[names.kind_of(resource)] for resource in resources] == [
        "group-coordinator",
        "group-coordinator",
        "share-partition-leader",
    ]
