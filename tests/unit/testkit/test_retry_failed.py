"""Which failed tests are repeated, and when the second try counts."""

from __future__ import annotations

import pytest

from tests.testkit.retry_failed import (
    CRASHED,
    MOST_CRASHED,
    MOST_REPEATED,
    Failure,
    all_passed,
    to_repeat,
    without_group,
)

FAILED = pytest.ExitCode.TESTS_FAILED


def failure(test: str, when: str = "call") -> Failure:
    return Failure(test, when, "assert 0")


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("a/test_b.py::test_c", "a/test_b.py::test_c"),
        ("a/test_b.py::test_c@group", "a/test_b.py::test_c"),
        ("a/test_b.py::test_c[1]@a group", "a/test_b.py::test_c[1]"),
        ("a/test_b.py::test_c[x@y]", "a/test_b.py::test_c[x@y]"),
        ("a/test_b.py::test_c[x@y]@group", "a/test_b.py::test_c[x@y]"),
        ("a@b/test_b.py::test_c", "a@b/test_b.py::test_c"),
    ],
)
def test_the_group_is_removed_from_a_test_id(test: str, expected: str) -> None:
    assert without_group(test) == expected


def test_each_failed_test_is_repeated_once_in_order() -> None:
    failures = [failure("b"), failure("a", "setup"), failure("b", "teardown")]
    assert to_repeat(failures, FAILED, stopped=False) == ["b", "a"]


def test_nothing_is_repeated_after_success() -> None:
    assert to_repeat([], pytest.ExitCode.OK, stopped=False) == ""


@pytest.mark.parametrize(
    "code",
    [pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.USAGE_ERROR],
    ids=lambda code: code.name,
)
def test_a_run_that_did_not_end_is_not_repeated(code: int) -> None:
    """An error of collection interrupts the run."""
    assert to_repeat([failure("a")], code, stopped=False) == "the run did not end"


def test_a_stopped_run_is_not_repeated() -> None:
    assert to_repeat([failure("a")], FAILED, stopped=True) == "the run did not end"


def test_a_test_during_which_a_worker_crashed_is_repeated() -> None:
    assert to_repeat([failure("a"), failure("b", CRASHED)], FAILED, stopped=False) == ["a", "b"]


def test_the_number_of_crashes_is_limited() -> None:
    failures = [failure(str(number), CRASHED) for number in range(MOST_CRASHED + 1)]
    assert to_repeat(failures[1:], FAILED, stopped=False) == [one.test for one in failures[1:]]
    assert isinstance(to_repeat(failures, FAILED, stopped=False), str)


def test_the_number_of_repeated_tests_is_limited() -> None:
    failures = [failure(str(number)) for number in range(MOST_REPEATED + 1)]
    assert to_repeat(failures[1:], FAILED, stopped=False) == [one.test for one in failures[1:]]
    assert isinstance(to_repeat(failures, FAILED, stopped=False), str)


def test_a_failed_run_without_failed_tests_stays_failed() -> None:
    assert isinstance(to_repeat([], FAILED, stopped=False), str)


@pytest.mark.parametrize(
    ("code", "results", "expected"),
    [
        (0, '<testsuites><testsuite tests="1" skipped="0"/></testsuites>', True),
        (0, '<testsuites><testsuite tests="1" skipped="1"/></testsuites>', False),
        (0, '<testsuites><testsuite tests="0" skipped="0"/></testsuites>', False),
        (0, "<testsuites/>", False),
        (1, '<testsuites><testsuite tests="1" skipped="0"/></testsuites>', False),
        (5, "", False),
    ],
)
def test_a_second_try_passes_only_if_the_test_ran(code: int, results: str, expected: bool) -> None:
    assert all_passed(code, results) is expected
