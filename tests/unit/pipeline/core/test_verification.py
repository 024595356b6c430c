"""Each difference is provoked: what cannot fail verifies nothing."""

from __future__ import annotations

import pytest

from sharebroker_server.pipeline.core.replay import Entry
from sharebroker_server.pipeline.core.verification import check
from tests.unit.pipeline.logs import ACCEPTED, ARCHIVED, AVAILABLE, answer, bare, checkpoint, delta

LOG = [checkpoint((102, 103, ACCEPTED, 1)), delta((105, 109, AVAILABLE, 2), at=2)]
ANSWER = answer((105, 109, AVAILABLE, 2), (102, 103, ACCEPTED, 1))

CASES: dict[str, tuple[list[Entry], list[tuple[int | None, int | None, str]]]] = {
    "nothing": ([], []),
    "the same": ([*LOG, ANSWER], []),
    "deleted": ([checkpoint(), bare("tombstone")], []),
    "no answer": (LOG, [(None, None, "The log has a state, but the coordinator has none.")]),
    "no log": ([ANSWER], [(None, None, "The coordinator has a state, but the log has none.")]),
    "unreadable": ([ANSWER, bare("unreadable")], [(None, None, "The log contains an invalid record.")]),
    "another start": (
        [checkpoint(), answer(start=101)],
        [(None, None, "The start is 100 in the log, but 101 in the coordinator.")],
    ),
    "other epochs": (
        [checkpoint(), answer(leader=4, state=1)],
        [
            (None, None, "The state epoch is 2 in the log, but 1 in the coordinator."),
            (None, None, "The leader epoch is 5 in the log, but 4 in the coordinator."),
        ],
    ),
    "a delta that the answer does not have": (
        [*LOG, delta((102, 105, ARCHIVED, 3), at=3), ANSWER],
        [
            (
                102,
                103,
                "In the log: archived, delivered 3 times; in the coordinator: acknowledged, delivered once.",
            ),
            (104, 104, "In the log: archived, delivered 3 times; in the coordinator: no state."),
            (
                105,
                105,
                "In the log: archived, delivered 3 times; in the coordinator: available, delivered 2 times.",
            ),
        ],
    ),
    "a state that there is not": (
        [checkpoint((100, 100, 7, 1)), answer()],
        [(100, 100, "In the log: 7, delivered once; in the coordinator: no state.")],
    ),
    "back again": (
        [checkpoint(), delta(at=2, start=110, leader=6), delta(at=3, start=105, leader=5), answer(start=105)],
        [
            (None, None, "The start decreases from 110 to 105 at position 3."),
            (None, None, "The leader epoch decreases from 6 to 5 at position 3."),
        ],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_differences(case: str) -> None:
    entries, expected = CASES[case]
    checked = check(entries)
    assert [tuple(one) for one in checked.differences] == expected
    assert checked.records == sum(entry.kind not in ("answer", "unreadable") for entry in entries)
