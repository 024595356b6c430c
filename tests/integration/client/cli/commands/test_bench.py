"""Measurements delete what they create."""

from __future__ import annotations

import pytest

from tests.integration.client.cli.commands.conftest import Command


@pytest.mark.parametrize(
    ("words", "figures"),
    [
        (["produce", "-n", "500"], {"records", "seconds", "records_per_s", "mb_per_s"}),
        (["consume", "-n", "500", "-p", "2"], {"records", "seconds", "records_per_s", "mb_per_s"}),
        (
            ["latency", "--rate", "50", "--seconds", "1"],
            {"records", "rate", "p50_ms", "p95_ms", "p99_ms", "max_ms"},
        ),
    ],
)
def test_measurement_reports_its_figures(sharebroker: Command, words: list[str], figures: set[str]) -> None:
    ran = sharebroker("bench", *words, "--json")
    assert ran.code == 0, ran
    assert set(ran.data) == figures
    topics = [row["name"] for row in sharebroker("topics", "list", "--json").data]
    groups = [row["group"] for row in sharebroker("groups", "list", "--json").data]
    assert not [name for name in (*topics, *groups) if name.startswith("bench-")]
