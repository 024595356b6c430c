"""Metrics of the reads from another cluster."""

from __future__ import annotations

from sharebroker_server.upstream_log.metrics import Counters


def test_each_count_is_a_counter() -> None:
    counters = Counters()
    counters.fetches, counters.fetched_bytes, counters.errors, counters.truncations = 1, 2, 3, 4
    found = {family.name: [sample.value for sample in family.samples] for family in counters.families()}
    assert found == {
        "sharebroker_upstream_fetches_total": [1],
        "sharebroker_upstream_fetched_bytes_total": [2],
        "sharebroker_upstream_errors_total": [3],
        "sharebroker_upstream_truncations_total": [4],
    }
