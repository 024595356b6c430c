"""A run before its start: the folder of its tables, and the tables that a replay makes again."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharebroker_server.pipeline import preparation
from sharebroker_server.pipeline.core.definition import TABLES
from sharebroker_server.pipeline.preparation import Preparation


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Preparation:
    monkeypatch.setattr(preparation, "find_spark", lambda given: given)
    return Preparation("example:flights", "old-flights", None, (), tmp_path, "h:1")


def test_options_replace_topic_and_group_of_the_project(prepared: Preparation) -> None:
    assert prepared.facts == {"topic": "old-flights", "group": "pipeline"}


def test_tables_are_in_the_given_folder_or_in_the_default(prepared: Preparation, tmp_path: Path) -> None:
    assert prepared.data_folder(tmp_path).folder == tmp_path
    assert prepared.data_folder(None).folder == Path.cwd() / "data" / "flights"


def test_replay_resets_the_tables_of_rows_and_updates_all_others(prepared: Preparation) -> None:
    full, reset, update, others = prepared.replayed()
    assert (full, update) == ("--full-refresh", "--refresh")
    assert {*reset.split(",")} == {"silver_records", "silver_rejected"}
    gold = {f"gold_delay_by_{name}" for name in ("carrier", "route", "hour")}
    assert {*reset.split(","), *others.split(",")} == {*TABLES, *gold}
    assert not {*reset.split(",")} & {*others.split(",")}
