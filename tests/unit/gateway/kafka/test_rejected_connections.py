"""The limit on connections."""

from __future__ import annotations

import pytest

from sharebroker_server.gateway.kafka import rejected_connections


def test_the_lower_limit_of_connections_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rejected_connections, "connections_permitted", lambda: 100)
    assert [rejected_connections.connection_limit(most) for most in (99, 101)] == [99, 100]


class _Protocol:
    """What a transport refers to."""


def test_a_connection_counts_until_its_transport_releases_it_or_it_ends() -> None:
    connections = rejected_connections.OpenConnections[_Protocol]()
    failing, lasting = _Protocol(), _Protocol()
    for connection in (failing, lasting):
        connections.add(connection)
    assert len(connections) == 2
    connections.begin(lasting)
    assert set(connections) == {failing, lasting}
    del failing, connection
    kept = {id(lasting)}
    assert len(connections) == 1, "the handshake failed"
    del lasting
    assert {id(connection) for connection in connections} == kept, "the listener holds those that are made"
    (made,) = connections
    connections.end(made)
    assert len(connections) == 0
