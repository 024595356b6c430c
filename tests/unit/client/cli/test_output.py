"""Output of commands: tables, cells, one-line error messages."""

from __future__ import annotations

import io
import json

import pytest
import typer
from rich.console import Console

from sharebroker.cli.output import (
    Column,
    amount,
    cell,
    explain,
    numbers,
    print_failure,
    printable,
    table,
    text,
)
from sharebroker.cli.reading import BadInputError
from sharebroker_protocol.errors import TRANSPORT, ErrorCode, FieldViolation, KafkaError
from tests.testkit.tables import each


@each(
    "value, shown",
    [
        (None, "-"),
        ("", "-"),
        (0, "0"),
        (True, "yes"),
        (False, "no"),
        ({"a": 1, "b": 2}, "a=1, b=2"),
        ({}, "-"),
        (["x", 1], "x, 1"),
        ([], "-"),
        ("text", "text"),
    ],
)
def test_cell_shows_a_value_as_text(value: object, shown: str) -> None:
    assert cell(value) == shown


@pytest.mark.parametrize(
    ("values", "shown"), [([], ""), ([3], "3"), ([2, 0, 1], "0-2"), ([0, 2, 3, 7], "0, 2-3, 7")]
)
def test_numbers_join_runs(values: list[int], shown: str) -> None:
    assert numbers(values) == shown


@each("number, shown", [(0, "0 topics"), (1, "1 topic"), (2, "2 topics"), (4000, "4,000 topics")])
def test_amounts_have_a_singular_and_a_plural(number: int, shown: str) -> None:
    assert amount(number, "topic") == shown


def test_table_aligns_numbers_right() -> None:
    console = Console(width=40, record=True, file=io.StringIO())
    console.print(table([{"a": "x", "n": 7}], (Column("A", "a"), Column("NUM", "n", number=True))))
    shown = console.export_text().splitlines()
    assert [line.rstrip() for line in shown] == ["A  NUM", "x    7"]


def test_table_shows_brackets_as_they_are() -> None:
    console = Console(width=40, record=True, file=io.StringIO())
    console.print(table([{"a": "[bold]x[/bold]"}], (Column("A", "a"),)))
    assert "[bold]x[/bold]" in console.export_text()


@each(
    "data, shown",
    [
        (None, None),
        (b"", ""),
        (b"a\nb\xc3\xa9", "a\nb\u00e9"),
        (b"\x1b[31m\r", "\\x1b[31m\\r"),
        (b"\xff", "\ufffd"),
    ],
)
def test_control_characters_are_escaped_for_terminals(data: bytes | None, shown: str | None) -> None:
    assert printable(data) == shown


def test_text_shows_invalid_utf8_bytes() -> None:
    assert text(None) is None
    assert text(b"a\xff") == "a�"


@each("code", ErrorCode)
def test_every_error_is_one_line(code: ErrorCode) -> None:
    assert "\n" not in explain(KafkaError(code, "Something\n is wrong."))


def test_advice_follows_the_message() -> None:
    failure = KafkaError(ErrorCode.NON_EMPTY_GROUP, "Group g has 2 members.")
    assert explain(failure).startswith("Group g has 2 members. Stop its consumers first;")


def test_advice_to_start_server_only_if_unreachable() -> None:
    away = {TRANSPORT: "UNAVAILABLE"}
    unreachable = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "Away.", metadata=away)
    assert "`sharebroker serve`" in explain(unreachable)
    failure = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "share-coordinator:6: it cannot be loaded.")
    assert explain(failure) == "share-coordinator:6: it cannot be loaded. Try again."


def test_violations_name_their_fields() -> None:
    violations = [FieldViolation("topics[0].name", "longer than 249 characters")]
    failure = KafkaError(ErrorCode.INVALID_REQUEST, "Bad.", violations=violations)
    assert explain(failure) == "Bad. topics[0].name: longer than 249 characters"


def test_a_violation_is_not_repeated() -> None:
    violations = [FieldViolation("lock_ms", "lock_ms is 5.")]
    failure = KafkaError(ErrorCode.INVALID_REQUEST, "lock_ms is 5.", violations=violations)
    assert explain(failure) == "lock_ms is 5."


def test_retriable_errors_advise_retry() -> None:
    assert ErrorCode.NOT_COORDINATOR.retriable
    assert explain(KafkaError(ErrorCode.NOT_COORDINATOR, "Elsewhere.")) == "Elsewhere. Try again."


@pytest.mark.parametrize(
    ("failure", "line"),
    [
        (FileNotFoundError(2, "No such file or directory", "in.csv"), "No such file or directory: in.csv"),
        (BrokenPipeError(32, "Broken pipe"), "Broken pipe"),
        (OSError("odd"), "OSError: odd"),
        (RuntimeError("odd"), "RuntimeError: odd"),
        (BadInputError("Line 2 is not JSON."), "Line 2 is not JSON."),
    ],
)
def test_other_failures_are_one_line(failure: Exception, line: str) -> None:
    assert explain(failure) == line


@pytest.mark.parametrize(
    ("failure", "name"),
    [
        (KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, "none"), "GROUP_ID_NOT_FOUND"),
        (typer.BadParameter("none"), "INVALID_USAGE"),
        (BadInputError("none"), "INVALID_INPUT"),
        (FileNotFoundError(2, "No such file"), "IO_ERROR"),
        (RuntimeError("none"), "RuntimeError"),
    ],
)
def test_failures_have_stable_names_in_json(
    failure: Exception, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    print_failure(failure, as_json=True)
    assert json.loads(capsys.readouterr().err)["error"] == name
