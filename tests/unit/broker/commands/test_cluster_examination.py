"""A gateway that serves anyone on the network is a finding."""

from __future__ import annotations

import pytest

from sharebroker_server.broker.commands.cluster_examination import is_open


@pytest.mark.parametrize(
    ("address", "unprotected"),
    [
        ("127.0.0.1:9090", False),
        ("localhost:9090", False),
        ("[::1]:9090", False),
        ("unix:/run/gateway", False),
        ("10.0.0.1:9090", True),
        ("tls://broker.example:9090", True),
        ("tls://broker.example:9090?user=alice", False),
    ],
)
def test_a_gateway_beyond_loopback_that_serves_anyone_is_open(
    address: str, unprotected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHAREBROKER_PASSWORD", "any")
    assert is_open(address) is unprotected
