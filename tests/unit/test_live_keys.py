"""Live keys: the trim position of a log, and the keys that are moved to its end."""

from __future__ import annotations

from sharebroker_server.live_keys import SLACK, LiveKeys


def test_empty_log_has_nothing_to_trim() -> None:
    assert LiveKeys[str]().trim_before() == 1
    assert LiveKeys[str]().stale(5) == []


def test_oldest_live_key_bounds_the_trimming() -> None:
    live = LiveKeys[str]()
    live.put("a", 1)
    live.put("b", 2)
    live.put("a", 3)
    assert (live.trim_before(), len(live)) == (2, 2)
    live.drop("b", 4)
    assert live.trim_before() == 3
    live.drop("a", 5)
    live.drop("a", 6)
    assert live.trim_before() == 7


def test_records_without_a_key_count_towards_the_log_length() -> None:
    live = LiveKeys[str]()
    live.skip(9)
    assert live.trim_before() == 10


def test_oldest_keys_are_stale_once_the_log_is_much_longer() -> None:
    live = LiveKeys[str]()
    live.put("old", 1)
    live.put("older than new", 2)
    live.put("new", 6 + SLACK)
    assert live.stale(1) == []
    live.put("new", 7 + SLACK)
    assert live.stale(0) == []
    assert live.stale(1) == ["old", "older than new"]
