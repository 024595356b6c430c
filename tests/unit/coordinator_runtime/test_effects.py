"""Performing effects."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import pytest

from sharebroker_server.coordinator_runtime.effects import no_effects, perform_all
from sharebroker_server.coordinator_runtime.machine import Effect
from tests.unit.coordinator_runtime.harness import IntendedEffect


def test_failed_effect_is_logged_and_the_next_one_performed(logs: list[MutableMapping[str, Any]]) -> None:
    performed: list[Effect] = []

    def perform(effect: Effect) -> None:
        performed.append(effect)
        if effect == IntendedEffect("a"):
            raise RuntimeError("on demand")

    perform_all(perform, [IntendedEffect("a"), IntendedEffect("b")], "shard:1")
    assert performed == [IntendedEffect("a"), IntendedEffect("b")]
    assert [(entry["event"], entry["shard"]) for entry in logs] == [("effect failed", "shard:1")]


def test_effect_without_performer_is_an_error() -> None:
    with pytest.raises(TypeError, match="IntendedEffect"):
        no_effects(IntendedEffect("a"))
