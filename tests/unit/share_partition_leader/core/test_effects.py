"""Effects of an event start empty."""

from __future__ import annotations

from sharebroker_server.share_partition_leader.core.effects import Effects


def test_effects_are_empty_until_an_event_fills_them() -> None:
    effects = Effects()
    assert not any(getattr(effects, name) for name in Effects.__slots__)
    effects.wake = True
    assert not Effects().wake
