"""Key names: prefixes and hash tags."""

from __future__ import annotations

from sharebroker_server.redis_link.keys import Keys


def test_clusters_have_separate_prefixes() -> None:
    assert Keys.of_cluster("") == Keys()
    assert Keys.of_cluster("orders").members() == "sharebroker.orders:members"


def test_keys_of_a_resource_share_its_hash_tag() -> None:
    keys = Keys()
    for key in (keys.lease("partition:t:0"), keys.log("partition:t:0"), keys.meta("partition:t:0")):
        assert "{partition:t:0}" in key
        assert Keys.resource_of(key) == "partition:t:0"
    assert keys.all_of("partition") == "sharebroker:{partition:*}:*"
