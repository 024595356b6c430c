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
        "test_without_the_wake_up_the_fetch_stalls",
    ),
    "a lock that times out while its acknowledgement is written": (
        "KAFKA-19476",
        "test_kafka_19476_lock_time_out_and_state_write.py",
        "test_pending_records_are_not_redelivered",
        "test_without_waiting_for_the_write_accepted_records_return",
    ),
    "leaked lock timers": (
        "KAFKA-18084",
        "test_kafka_18084_leaked_lock_timers.py",
        "test_finished_records_leave_no_timers",
        "test_timer_per_lock_leaks",
    ),
    "fetches that a former leader keeps": (
        "KAFKA-19567",
        "test_kafka_19567_fetch_and_leadership_change.py",
        "test_waiting_fetch_is_redirected_to_the_new_leader",
        "test_without_a_notification_the_fetch_waits",
    ),
    "a count of finished records that decreases": (
        "#23112",
        "test_state_writes_out_of_order.py",
        "test_count_of_finished_records_does_not_decrease",
        "test_without_the_check_the_count_decreases",
    ),
    "a higher start offset in a state write": (
        "#23074",
        "test_state_writes_out_of_order.py",
        "test_higher_start_offset_stays_and_drops_states",
        "test_without_the_check_the_start_offset_decreases",
    ),
    "offsets altered without a new state epoch": (
        "KAFKA-20910",
        "test_kafka_20910_altered_offsets_and_old_leaders.py",
        "test_records_acquired_before_an_alteration_are_not_accepted",
        "test_without_the_state_epoch_records_are_accepted",
    ),
}
"""Kafka's name of the bug, and its scenarios: with the safeguard, and without it."""

_NAME: Final = re.compile(r"KAFKA-\d+|#\d+")


def rows() -> list[tuple[set[str], str]]:
    """Returns the bugs that a row of the list names, and the file that it links to."""
    table = [line for line in (HERE / "README.md").read_text().splitlines() if line.startswith("| ")]
    links = [(set(_NAME.findall(line)), re.search(r"\]\(([^)]+)\)", line)) for line in table]
    return [(names, link[1]) for names, link in links if link is not None]


def scenarios_in(file: str) -> set[str]:
    """Returns the names of a file's tests, by its source; skipped tests count as none."""
    tree = ast.parse((HERE / file).read_text())
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {function.name for function in functions if not function.decorator_list}


@pytest.mark.parametrize("bug", BUGS)
def test_listed_bug_has_its_scenarios(bug: str) -> None:
    name, file, *scenarios = BUGS[bug]
    assert [link for names, link in rows() if name in names] == [file]
    assert name in (ast.get_docstring(ast.parse((HERE / file).read_text())) or "")
    assert set(scenarios) <= scenarios_in(file)


def test_list_and_files_name_the_same_bugs() -> None:
    assert sorted(name for names, _ in rows() for name in names) == sorted(bug[0] for bug in BUGS.values())
    files = {path.name for path in HERE.glob("test_*.py")} - {Path(__file__).name}
    assert files == {file for _, file, *_ in BUGS.values()}
