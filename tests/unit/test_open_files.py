"""The number of connections that the limit on open files permits."""

from __future__ import annotations

import resource

import pytest

from sharebroker_server.open_files import connections_permitted

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
    assert connections_permitted() == room
    assert limits_set == ([] if soft == hard else [(hard, hard)])
