"""Output for users."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from sharebroker_server.flights.core.flight import FlightAcknowledgement
from sharebroker_server.flights.core.ledger import RunVerdict
from sharebroker_server.flights.core.statistics import RunProgress, RunSummary
from sharebroker_server.flights.display import Display, print_summary, print_verdict


@pytest.fixture
def console() -> Console:
    return Console(file=io.StringIO(), width=100)


def written(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_plain_lines_are_printed_every_other_second(console: Console) -> None:
    with Display(console) as display:
        display.show(RunProgress(published=1), 0.0)
        display.show(RunProgress(published=2), 1.0)
        display.message("[worker-3] killed")
        display.show(RunProgress(published=3), 2.0)
        display.finish(RunProgress(published=4))
    lines = written(console).splitlines()
    assert [line.split("  ")[0] for line in lines] == [
        "published 1",
        "[worker-3] killed",
        "published 3",
        "published 4",
    ]


def test_terminal_shows_the_numbers_live() -> None:
    console = Console(file=io.StringIO(), width=100, force_terminal=True)
    with Display(console) as display:
        display.show(RunProgress(published=1234), 0.0)
    assert "locks lost" in written(console)


def test_tables_name_carriers_and_routes(console: Console) -> None:
    summary = RunSummary()
    for _ in range(50):
        summary.count(FlightAcknowledgement.ACCEPT, "UA", "EWR-IAH", (4, 8))
    summary.count(FlightAcknowledgement.REJECT, "UA", "EWR-IAH", (0, 0))
    print_summary(console, summary, {"UA": "United Air Lines Inc."})
    shown = written(console)
    assert "United Air Lines Inc." in shown
    assert "EWR-IAH" in shown
    assert "8.0" in shown


def test_empty_summary_prints_no_table(console: Console) -> None:
    print_summary(console, RunSummary(), {})
    assert written(console) == ""


def test_good_verdict_is_printed(console: Console) -> None:
    print_verdict(console, RunVerdict(10, 4, 5, 1, (), (), ()))
    shown = written(console)
    assert "published 10 = finished by an earlier run 4 + accepted 5 + rejected 1" in shown
    assert "every record was finished exactly once" in shown


def test_bad_verdict_names_the_offsets(console: Console) -> None:
    scattered = tuple((1, offset) for offset in range(0, 60, 2))
    print_verdict(console, RunVerdict(3, 0, 1, 0, ((0, 1), (0, 2)), (), scattered))
    shown = written(console)
    assert "partition 0: 1-2" in shown
    assert "redelivered after they were finished: 30" in shown
    assert "and 10 more ranges" in shown
    assert "Verdict: FAILED" in shown
