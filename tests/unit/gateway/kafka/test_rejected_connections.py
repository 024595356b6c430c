"""The limit on connections."""

from __future__ import annotations

import resource

import pytest

from sharebroker_server.gateway.kafka import rejected_connections

NO_LIMIT = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("soft", "hard", "may", "room"),
    [
        (1024, 5000, True, 4744),
        (5000, 5000, True, 4744),
        (1024, 5000, False, 768),
        (100, 100, True, 50),
        (1024, NO_LIMIT, True, 1 << 30),
        (1024, NO_LIMIT, False, 768),
    ],
)
def test_connections_are_bounded_by_file_descriptors(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, may: bool, room: int
) -> None:
    limits_set: list[tuple[int, int]] = []

    def ask(_: int, limits: tuple[int, int]) -> None:
        limits_set.append(limits)
        if not may:
            raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", ask)
    assert rejected_connections.available_files() == room
    assert limits_set == ([] if soft == hard else [(hard, hard)])


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
