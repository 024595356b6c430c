"""Data is shown once, or repeated until a count, an error or Ctrl-C ends it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text

from sharebroker.cli import live
from sharebroker.cli.live import watch
from sharebroker_protocol.errors import ErrorCode, KafkaError

AWAY = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "away")


def loads(*results: object) -> Callable[[], Any]:
    """Returns or raises one result after another, and then Ctrl-C."""
    remaining = iter(results)

    def load() -> object:
        result = next(remaining, KeyboardInterrupt())
        if isinstance(result, BaseException):
            raise result
        return result

    return load


def view(data: object) -> Text:
    return Text(f"view {data}")


def test_data_is_shown_once_without_an_interval(capsys: pytest.CaptureFixture[str]) -> None:
    watch(None, False, loads({"a": 1}), view)
    watch(None, True, loads({"a": 1}), view)
    out = capsys.readouterr().out
    assert out.startswith("view {'a': 1}\n")
    assert json.loads(out.partition("\n")[2]) == {"a": 1}


def test_interval_repeats_until_ctrl_c(capsys: pytest.CaptureFixture[str]) -> None:
    watch(0.001, False, loads(1, 2), view)
    assert capsys.readouterr().out.split("\n") == ["view 1", "view 2", ""]


def test_json_has_one_document_per_line(capsys: pytest.CaptureFixture[str]) -> None:
    watch(0.001, True, loads([1], [2], [3]), view, count=2)
    assert capsys.readouterr().out == "[1]\n[2]\n"


def test_failure_without_a_terminal_ends_the_command() -> None:
    with pytest.raises(KafkaError):
        watch(0.001, True, loads(1, AWAY, 2), view)


def test_retriable_failure_in_a_terminal_is_shown_below_the_last_view(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Console(force_terminal=True, width=80)
    monkeypatch.setattr(live, "console", lambda: terminal)
    watch(0.001, False, loads(1, AWAY, 2), view)
    out = capsys.readouterr().out
    assert "away" in out
    assert out.endswith("view 2\n")


def test_first_failure_ends_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "console", lambda: Console(force_terminal=True))
    with pytest.raises(KafkaError):
        watch(0.001, False, loads(AWAY, 1), view)
