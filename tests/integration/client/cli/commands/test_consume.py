"""Consuming from the command line."""

from __future__ import annotations

import pytest

from tests.integration.client.cli.commands.commands import lag, taken
from tests.integration.client.cli.commands.conftest import Command


def test_released_record_is_redelivered(sharebroker: Command, topic: str, group: str) -> None:
    sharebroker("produce", topic, stdin=b"once\n")
    first = taken(sharebroker, topic, group, 1, "--release")
    second = taken(sharebroker, topic, group, 1, "--reject")
    assert [record["delivery_count"] for record in first + second] == [1, 2]
    assert lag(sharebroker, group) == 0


def test_option_ask_prompts_for_each_record(sharebroker: Command, topic: str, group: str) -> None:
    sharebroker("produce", topic, stdin=b"x\ny\nz\n")
    ran = sharebroker(
        "consume", topic, "-g", group, "--from-beginning", "--ask", "--max", "3", stdin=b"a\nwhat\nj\nq\n"
    )
    assert ran.code == 0, ran
    assert "Accepted 1, rejected 1." in ran.err
    assert lag(sharebroker, group) == 1


@pytest.mark.parametrize("options", [("--max", "5"), ("--max", "5", "--release"), ()])
def test_consume_stops_after_timeout_without_records(
    sharebroker: Command, topic: str, group: str, options: tuple[str, ...]
) -> None:
    ran = sharebroker("consume", topic, "-g", group, "--timeout", "0.5", *options)
    assert ran.code == 0, ran
    assert "No records arrived." in ran.err


def test_format_decides_on_the_lines(sharebroker: Command, topic: str, group: str) -> None:
    sharebroker("produce", topic, "--key-separator", ":", "--header", "a=1", stdin=b"k:v\n")
    template = r"{key}\t{value} {header:a} {delivery}"
    options = ("--from-beginning", "--max", "1", "--timeout", "20", "--format", template)
    assert sharebroker("consume", topic, "-g", group, *options).out == "k\tv 1 1\n"


@pytest.mark.parametrize("options", [["--format", "{no}"], ["--format", "{key}", "--json"]])
def test_invalid_formats_are_rejected(sharebroker: Command, topic: str, options: list[str]) -> None:
    assert sharebroker("consume", topic, "-g", "g", *options).code == 2


def test_actions_exclude_each_other(sharebroker: Command, topic: str) -> None:
    ran = sharebroker("consume", topic, "-g", "g", "--accept", "--reject")
    assert ran.code == 2
    assert "exclude each other" in ran.err
