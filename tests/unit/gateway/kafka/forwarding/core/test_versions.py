"""Versions of forwarded APIs: what this broker and all brokers of the cluster have in common."""

from __future__ import annotations

import pytest

from sharebroker_server.gateway.kafka.api_table import APIS
from sharebroker_server.gateway.kafka.forwarding.core.versions import limited
from sharebroker_server.kafka_client.core.apis import Versions

FETCH, HEARTBEAT = 1, 76


@pytest.mark.parametrize(
    ("offered", "expected"),
    [
        ([(0, 17)], (4, 17)),
        ([(6, 20), (0, 17)], (6, 17)),
        ([(0, 17), (0, 11)], (4, 11)),
        ([], APIS[FETCH].versions),
    ],
)
def test_all_brokers_have_the_versions(offered: list[tuple[int, int]], expected: tuple[int, int]) -> None:
    found = limited(APIS, {FETCH}, [Versions({FETCH: versions}) for versions in offered])
    assert found[FETCH].versions == expected
    assert found[HEARTBEAT] is APIS[HEARTBEAT]


@pytest.mark.parametrize("offered", [{}, {FETCH: (0, 3)}, {FETCH: (19, 20)}])
def test_an_api_without_a_common_version_is_left_out(offered: dict[int, tuple[int, int]]) -> None:
    assert FETCH not in limited(APIS, {FETCH}, [Versions(offered)])
