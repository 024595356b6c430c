"""Exit codes that reject, and the text of exit codes."""

from __future__ import annotations

import pytest
import typer
from typer.testing import CliRunner

from sharebroker.cli.app import app
from sharebroker.cli.commands.work import describe, parse_backoff, parse_codes, parse_lock


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("65", {65}),
        ("65,100-102", {65, 100, 101, 102}),
        (" 1 , 255", {1, 255}),
        ("7-7", {7}),
        ("none", set()),
    ],
)
def test_codes_and_ranges_are_parsed(text: str, codes: set[int]) -> None:
    assert parse_codes(text) == codes


@pytest.mark.parametrize("text", ["", "0", "256", "9-7", "1-", "-1", "a", "1,,2", "1-2-3"])
def test_invalid_codes_are_bad_usage(text: str) -> None:
    with pytest.raises(typer.BadParameter, match=r"neither an exit code from 1 to 255 nor a range"):
        parse_codes(text)


@pytest.mark.parametrize(
    ("exit_code", "text"), [(1, "exit code 1"), (-9, "SIGKILL"), (-15, "SIGTERM"), (-99, "signal 99")]
)
def test_exit_code_as_text(exit_code: int, text: str) -> None:
    assert describe(exit_code) == text


@pytest.mark.parametrize(("text", "delay"), [("group", None), ("0", 0.0), ("2.5", 2.5), ("86400", 86_400.0)])
def test_backoff_is_a_delay_or_that_of_the_group(text: str, delay: float | None) -> None:
    assert parse_backoff(text) == delay


@pytest.mark.parametrize("text", ["", "-1", "86401", "nan", "inf", "Group", "1s"])
def test_invalid_backoff_is_bad_usage(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="neither a number of seconds from 0 to 86400 nor 'group'"):
        parse_backoff(text)


@pytest.mark.parametrize(("seconds", "milliseconds"), [(0, 0), (1, 1000), (90.5, 90_500)])
def test_a_lock_is_at_least_a_second(seconds: float, milliseconds: int) -> None:
    assert parse_lock(seconds) == milliseconds


def test_a_shorter_lock_is_bad_usage() -> None:
    with pytest.raises(typer.BadParameter, match=r"0.5 is neither 0 nor at least 1 second."):
        parse_lock(0.5)


@pytest.mark.parametrize(
    "option", [("--backoff", "-1"), ("--lock", "0.5"), ("--reject-codes", "0"), ("--timeout", "nan")]
)
def test_invalid_options_are_bad_usage_before_the_server_is_called(option: tuple[str, str]) -> None:
    server = ("--server", "nowhere.invalid:1")
    result = CliRunner().invoke(app, ["work", "orders", "-g", "billing", *server, *option, "--", "true"])
    assert result.exit_code == 2
    assert "Invalid value for" in result.stderr
