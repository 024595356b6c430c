"""Repeats failed tests once, one at a time, after all others have ended (decision 0076).

A pytest plugin: `pytest -p tests.testkit.retry_failed`. Tests that pass at the second try are listed, and
the run succeeds if all of them do. A test during which a worker of pytest-xdist crashed has failed like any
other. Nothing is repeated if the run itself failed: a module that could not be collected, an interrupt, too
many failed tests or crashes.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

import pytest

MOST_REPEATED: Final = 20
"""With more failed tests, the change is at fault and not the load."""

MOST_CRASHED: Final = 3
"""With more crashes, the change is at fault; each may have cost the timeout of a test."""

TIMEOUT: Final = 600
"""Seconds for the second try of one test, with the start of its servers."""

CRASHED: Final = "???"
"""Where a test failed, according to the report that pytest-xdist makes when a worker crashes."""

_TITLE: Final = "passed at the second try: load-dependent"
_LINES: Final = 60
_FAILURES: Final = ("failed", "error")


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed test: `when` is setup, call, teardown, or CRASHED."""

    test: str
    when: str
    text: str


def without_group(test: str) -> str:
    """Returns a test's id without the group that `--dist loadgroup` appends to it: `a.py::b[1]@group`."""
    at = test.rfind("@")
    return test[:at] if at > test.rfind("]") and "::" in test[:at] else test


def to_repeat(failures: Iterable[Failure], exit_code: int, *, stopped: bool) -> list[str] | str:
    """Returns the tests to repeat in their order, or why none is: an empty reason if none failed."""
    if exit_code == pytest.ExitCode.OK:
        return ""
    if exit_code != pytest.ExitCode.TESTS_FAILED or stopped:
        return "the run did not end"
    found = list(failures)
    tests = list(dict.fromkeys(failure.test for failure in found))
    if sum(failure.when == CRASHED for failure in found) > MOST_CRASHED:
        return f"more than {MOST_CRASHED} workers crashed"
    if len(tests) > MOST_REPEATED:
        return f"more than {MOST_REPEATED} tests failed"
    return tests or "no test failed, but the run did"


def all_passed(exit_code: int, results: str) -> bool:
    """Returns whether the run with the JUnit report `results` passed, ran a test, and skipped none."""
    if exit_code != pytest.ExitCode.OK:
        return False
    suites = list(ElementTree.fromstring(results).iter("testsuite"))
    counts = {name: sum(int(suite.get(name, 0)) for suite in suites) for name in ("tests", "skipped")}
    return counts["tests"] > 0 and counts["skipped"] == 0


def repeat(test: str, folder: Path) -> tuple[bool, str]:
    """Runs one test in a process of its own; returns whether it passed, and the end of the output."""
    with tempfile.NamedTemporaryFile(suffix=".xml") as report:
        command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", "-q"]
        command += [f"--junitxml={report.name}", test]
        try:
            ended = subprocess.run(
                command,
                cwd=folder,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=TIMEOUT,
                text=True,
                errors="replace",
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False, f"{test}: no end after {TIMEOUT} s"
        passed = all_passed(ended.returncode, Path(report.name).read_text())
    return passed, "\n".join(ended.stdout.splitlines()[-_LINES:])


class RetryFailed:
    """Collects the failures of a run and repeats them at its end."""

    def __init__(self, reporter: pytest.TerminalReporter) -> None:
        self._reporter = reporter
        self._failures: list[Failure] = []
        self._repeated: list[Failure] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Notes a failure in setup, call or teardown."""
        if report.failed:
            failure = Failure(without_group(report.nodeid), report.when or CRASHED, report.longreprtext)
            self._failures.append(failure)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Repeats the failed tests; the run succeeds if all of them pass now."""
        stopped = bool(session.shouldstop or session.shouldfail)
        tests = to_repeat(self._failures, exitstatus, stopped=stopped)
        if isinstance(tests, str):
            if tests:
                self._reporter.write_line(f"\nFailed tests are not repeated: {tests}.")
            return
        passed = self._repeat(tests, session.config.rootpath)
        self._repeated = [failure for failure in self._failures if failure.test in passed]
        self._count(passed)
        if len(passed) == len(tests):
            session.exitstatus = pytest.ExitCode.OK

    def _repeat(self, tests: Sequence[str], folder: Path) -> set[str]:
        self._reporter.write_line(f"\nRepeating {len(tests)} failed tests, one at a time.")
        passed = set[str]()
        for test in tests:
            ok, output = repeat(test, folder)
            self._reporter.write_line(f"{test}: {'passed' if ok else 'failed again'}")
            if ok:
                passed.add(test)
            else:
                self._reporter.write_line(output)
        return passed

    def _count(self, passed: set[str]) -> None:
        """Moves the tests that passed now from the failed ones to the passed ones of pytest's summary."""
        stats = self._reporter.stats
        moved = [
            report
            for category in _FAILURES
            for report in stats.get(category, [])
            if without_group(report.nodeid) in passed
        ]
        if not moved:
            return
        for category in _FAILURES:
            stats[category] = [report for report in stats.get(category, []) if report not in moved]
            if not stats[category]:
                del stats[category]
        counted = {report.nodeid for report in stats.get("passed", [])}
        self._add("passed", {report.nodeid: report for report in moved if report.nodeid not in counted})
        self._add("rerun", {report.nodeid: report for report in moved})

    def _add(self, category: str, reports: dict[str, pytest.TestReport]) -> None:
        self._reporter._add_stats(category, list(reports.values()))  # also selects the summary's colour

    def pytest_terminal_summary(self) -> None:
        """Lists the tests that passed at the second try, with their first failures."""
        if not self._repeated:
            return
        self._reporter.section(_TITLE)
        for failure in self._repeated:
            self._reporter.write_line(f"{failure.test} ({failure.when})", bold=True)
            self._reporter.write_line(failure.text)
        self._reporter.section(_TITLE)
        for test in dict.fromkeys(failure.test for failure in self._repeated):
            self._reporter.write_line(test)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Registers the plugin in the process that prints the summary; test workers have none."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(RetryFailed(reporter), "retry-failed")
