"""Each listed bug of Kafka has its scenarios, and each scenario is in the list."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Final

import pytest

HERE: Final = Path(__file__).parent

BUGS: Final = {
    "a deadlock between an acknowledgement and a fetch": (
        "KAFKA-20505",
        "test_kafka_20505_acknowledgement_and_fetch.py",
        "test_released_records_complete_a_waiting_fetch",
        "test_without_the_wake_up_the_fetch_stands_still",
    ),
    "a lock that runs out while its acknowledgement is written": (
        "KAFKA-19476",
        "test_kafka_19476_lock_time_out_and_state_write.py",
        "test_pending_records_are_not_redelivered",
        "test_without_waiting_for_the_write_accepted_records_come_again",
    ),
    "timers of locks that stay": (
        "KAFKA-18084",
        "test_kafka_18084_leaked_lock_timers.py",
        "test_finished_records_leave_no_timers",
        "test_a_timer_for_each_lock_leaks",
    ),
    "fetches that a former leader keeps": (
        "KAFKA-19567",
        "test_kafka_19567_fetch_and_leadership_change.py",
        "test_a_waiting_fetch_is_sent_to_the_new_leader",
        "test_without_a_notification_it_waits",
    ),
    "a count of finished records that goes back": (
        "#23112",
        "test_state_writes_out_of_order.py",
        "test_the_count_of_finished_records_does_not_go_back",
        "test_taking_the_count_as_it_came_it_would",
    ),
    "a higher start offset in a write of state": (
        "#23074",
        "test_state_writes_out_of_order.py",
        "test_a_higher_start_offset_stays_and_takes_states_with_it",
        "test_taking_the_start_as_it_came_it_would_not",
    ),
    "offsets altered without a new state epoch": (
        "KAFKA-20910",
        "test_kafka_20910_altered_offsets_and_old_leaders.py",
        "test_records_acquired_before_an_alteration_are_not_accepted",
        "test_without_a_state_epoch_that_counts_it_is",
    ),
}
"""Kafka's name of the bug, and its scenarios: with the safeguard, and without it."""

_NAME: Final = re.compile(r"KAFKA-\d+|#\d+")


def rows() -> list[tuple[set[str], str]]:
    """Returns the bugs that a row of the list names, and the file that it links to."""
    table = [line for line in (HERE / "README.md").read_text().splitlines() if line.startswith("| ")]
    links = [(set(_NAME.findall(line)), re.search(r"\]\(([^)]+)\)", line)) for line in table]
    return [(names, link[1]) for names, link in links if link is not None]


def stories_in(file: str) -> set[str]:
    """Returns the names of a file's tests, by its source; skipped tests count as none."""
    tree = ast.parse((HERE / file).read_text())
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {function.name for function in functions if not function.decorator_list}


@pytest.mark.parametrize("bug", BUGS)
def test_a_known_bug_has_its_stories_and_its_place_in_the_list(bug: str) -> None:
    name, file, *stories = BUGS[bug]
    assert [link for names, link in rows() if name in names] == [file]
    assert name in (ast.get_docstring(ast.parse((HERE / file).read_text())) or "")
    assert set(stories) <= stories_in(file)


def test_the_list_names_no_bug_that_is_not_known_and_no_file_is_left_out() -> None:
    assert sorted(name for names, _ in rows() for name in names) == sorted(bug[0] for bug in BUGS.values())
    stories = {path.name for path in HERE.glob("test_*.py")} - {Path(__file__).name}
    assert stories == {file for _, file, *_ in BUGS.values()}
