from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from sharebroker_server.share_partition_leader.metrics import exhausted_records_log
from sharebroker_server.share_partition_leader.metrics.counters import REST, Tallies
from sharebroker_server.share_partition_leader.metrics.exhausted_records_log import SetAside
from sharebroker_server.testkit.waiting import eventually


def told(aside: SetAside) -> list[tuple[str, str, int]]:
    with capture_logs() as said:
        aside.look()
    assert all(line["log_level"] == "warning" for line in said)
    return [(line["group"], line["topic"], line["records"]) for line in said]


def test_each_record_is_told_once() -> None:
    tallies = Tallies(lambda: 1)
    aside = SetAside(tallies)
    billing = tallies.of("billing", "orders", list)
    assert told(aside) == []
    billing.exhausted += 3
    assert told(aside) == [("billing", "orders", 3)]
    assert told(aside) == []
    audit = tallies.of("audit", "orders", list)  # for which the other, that nobody uses, makes room
    audit.exhausted += 1
    assert told(aside) == [("audit", "orders", 1)]
    dict(tallies.all())[REST].exhausted += 2
    assert told(aside) == [(*REST, 2)]


def test_a_pair_that_made_room_and_came_back_is_told_of_what_is_new() -> None:
    tallies = Tallies(lambda: 1)
    aside = SetAside(tallies)
    tallies.of("billing", "orders", list).exhausted += 3
    assert told(aside) == [("billing", "orders", 3)]
    tallies.of("audit", "orders", list).exhausted += 2
    tallies.of("billing", "orders", list).exhausted += 1
    assert told(aside) == [("billing", "orders", 1), (*REST, 2)]


def test_a_command_that_says_which_is_one_for_a_shell_and_none_names_the_rest() -> None:
    tallies = Tallies(lambda: 1)
    tallies.of("night shift", "orders", list).exhausted += 1
    dict(tallies.all())[REST].exhausted += 1
    with capture_logs() as said:
        SetAside(tallies).look()
    assert [line.get("which") for line in said] == ["sharebroker verify 'night shift' orders --offsets", None]


async def test_it_looks_now_and_then_and_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exhausted_records_log, "EVERY", 0.01)
    tallies = Tallies(lambda: 1)
    counts, aside = tallies.of("billing", "orders", list), SetAside(tallies)
    with capture_logs() as said:
        aside.start()
        counts.exhausted += 1
        await eventually(lambda: said, 30)
        counts.exhausted += 2
        await aside.stop()
    assert [line["records"] for line in said] in ([1, 2], [3])
    assert said[0]["which"] == "sharebroker verify billing orders --offsets"
