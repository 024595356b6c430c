"""Checks of host names."""

from __future__ import annotations

import pytest

from sharebroker_server.redis_link.topology.host_names import is_resolvable


@pytest.mark.parametrize(
    ("host", "resolvable"),
    [("", True), ("redis", True), ("a.b", True), ("a..b", False), ("a" * 63, True), ("a" * 64, False)],
)
def test_labels_are_neither_empty_nor_too_long(host: str, resolvable: bool) -> None:
    assert is_resolvable(host) is resolvable
