"""The rate and the progress of a redrive, in simulated time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

import sharebroker
from sharebroker.cli.app import app
from sharebroker.cli.commands import dead_letters
from sharebroker.dead_letter_model import DeadLetter, RedrivePage, RedriveResult
from sharebroker_protocol import clock

CALL = 0.05
"""Seconds that a call of the server takes."""


class Server:
    """A server with dead letters; `sent` has the time of each call that redrives, and its letters."""

    def __init__(self, letters: int) -> None:
        self.letters = letters
        self.now = 0.0
        self.sent: list[tuple[float, int]] = []

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def redrive(
        self, topic: str, where: object, *, max_letters: int, page_token: str, **_: object
    ) -> RedrivePage:
        assert topic == "dlq"
        first = int(page_token or 0)
        last = min(first + max_letters, self.letters)
        self.sent.append((self.now, last - first))
        self.now += CALL
        results = [RedriveResult(letter(offset), "orders", 0, offset, None) for offset in range(first, last)]
        return RedrivePage(results, str(last) if last < self.letters else "", last - first)


def letter(offset: int) -> DeadLetter:
    return DeadLetter(
        partition=0,
        offset=offset,
        time=0.0,
        group_id="billing",
        source_topic="orders",
        source_partition=0,
        source_offset=offset,
        delivery_count=1,
        disposition="rejected",
        message="",
        reason="",
        failed=None,
        member_id="",
        client_id="",
        hops=1,
        origin="",
        copy="full",
        key_size=None,
        value_size=None,
    )


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    server = Server(250)

    def pause(seconds: float) -> None:
        server.now += max(0.0, seconds)

    monkeypatch.setattr(sharebroker, "DeadLetters", lambda _: server)
    monkeypatch.setattr(dead_letters, "pause", pause)
    with clock.counted_by(lambda: server.now):
        yield server


def redrive(*options: str) -> str:
    ran = CliRunner().invoke(app, ["dead-letters", "redrive", "dlq", *options])
    assert ran.exit_code == 0, ran.output
    return ran.stderr


@pytest.mark.parametrize("rate", [0.5, 1, 7.5, 100, 400])
def test_no_more_letters_than_the_rate_are_redriven_in_any_time(server: Server, rate: float) -> None:
    redrive("--rate", str(rate), "--execute")
    assert sum(number for _, number in server.sent) == 250
    for index, (begin, first) in enumerate(server.sent):
        letters = 0
        for time, number in server.sent[index + 1 :]:
            letters += number
            assert letters - number + first <= rate * (time - begin) + 1e-6
    last, number = server.sent[-1]
    assert last == pytest.approx((250 - number) / rate), "and no fewer: the calls do not slow it down"


def test_a_rate_above_that_of_the_server_causes_no_pause(server: Server) -> None:
    redrive("--rate", "100000", "--execute")
    assert server.now == pytest.approx(3 * CALL)


def test_a_check_is_not_slowed_down(server: Server) -> None:
    redrive("--rate", "1")
    assert server.now == pytest.approx(3 * CALL)


def test_progress_is_printed_once_per_hundred_letters(server: Server) -> None:
    notices = [line for line in redrive("--rate", "8", "--execute").splitlines() if "continuing" in line]
    assert notices == [f"{number} letters, 0 of them failed; continuing." for number in (104, 208)]
