"""Delayed release: no member acquires the records before the delay has passed."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import LONGEST_DELAY_MS
from sharebroker_server.share_partition_leader.core.events import (
    Completed,
    SharePartitionSettings,
    TimerFired,
)
from tests.testkit.tables import each
from tests.unit.share_partition_leader.core.stepped import SteppedPartition
from tests.unit.share_partition_leader.core.support import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    ack,
    acks,
    check,
    compact,
    done,
    fetch,
    opened,
    picture,
    ranges,
    show,
)


def _released(
    part: str, delay: float, now: float = 0.0, share: SteppedPartition | None = None
) -> SteppedPartition:
    """Returns a share-partition in which m1 held 0-9 and released `part` durably with a delay."""
    if share is None:
        share = opened()
        fetch(share, "0-9", now=now)
    transition = share.acknowledge("m1", acks(part, RELEASE), now, delay)
    assert transition is not None
    done(share, transition)
    return share


def test_a_delayed_release_is_written_as_a_release() -> None:
    share = opened()
    fetch(share, "0-9")
    transition = share.acknowledge("m1", acks("2-4", RELEASE), 0.0, 10.0)
    assert transition is not None
    assert show(share.write([transition])) == "0: 2-4 available 1"
    assert share.complete([transition]) == Completed(False, 0, 0, 0)
    assert picture(share, members=True) == "0-1 acquired 1 m1, 2-4 available 1 from 10, 5-9 acquired 1 m1"
    assert share.in_flight.waiting_ranges() == [(2, 4)]
    assert share.in_flight.sizes() == (10, 3, 10, 7, 0, 3, 0)


@pytest.mark.parametrize(
    ("now", "handed"), [(9.9, ""), (10.0, "2-4 x2"), (40.0, "2-4 x2"), (10_000.0, "2-4 x2")]
)
def test_delayed_record_is_acquirable_after_the_delay(now: float, handed: str) -> None:
    share = _released("2-4", 10.0)
    share.settings = SharePartitionSettings(lock_duration=1e6)
    ack(share, "0-1 5-9", RENEW, now=9.0)
    share.expire(now)
    check(share)
    assert ranges(fetch(share, "0-9", "m2", now=now)) == handed


def test_the_deadline_includes_the_delay() -> None:
    share = _released("0-9", 5.0)
    assert share.next_deadline() == 5.0
    assert picture(share) == "0-9 available 1 from 5"
    assert share.handle(TimerFired(), 4.999).wake is False
    effects = share.handle(TimerFired(), 5.0)
    assert (effects.wake, effects.lost, effects.write_due) == (True, (), False)
    assert picture(share) == "0-9 available 1"
    assert share.next_deadline() is None


def test_delays_of_several_requests_end_separately() -> None:
    share = opened()
    fetch(share, "0-9")
    for part, delay in (("0-2", 20.0), ("3-5", 10.0), ("6-9", 15.0)):
        _released(part, delay, share=share)
    ready = []
    for _ in range(3):
        deadline = share.next_deadline()
        assert deadline is not None
        share.expire(deadline)
        check(share)
        ready.append((deadline, ranges(fetch(share, "0-9", now=deadline))))
    assert ready == [(10.0, "3-5 x2"), (15.0, "6-9 x2"), (20.0, "0-2 x2")]


def test_waiting_neighbours_with_one_time_are_one_run() -> None:
    share = opened()
    fetch(share, "0-9")
    for part, now in (("0-2", 0.0), ("6-9", 0.0), ("3-5", 1.0)):
        _released(part, 10.0 - now, now, share=share)
    assert [(run.first, run.last) for run in share.in_flight.runs] == [(0, 9)]
    share.expire(10.0)
    check(share)
    assert ranges(fetch(share, "0-9", now=10.0)) == "0-9 x2"


def test_remaining_part_of_a_waiting_run_becomes_ready() -> None:
    share = _released("0-9", 10.0)
    compact(share, 0, 3)
    share.expire(10.0)
    check(share)
    assert ranges(fetch(share, "4-9", now=10.0)) == "4-9 x2"


def test_many_ended_waits_do_not_stay_in_memory() -> None:
    share = opened(settings=SharePartitionSettings(max_record_locks=10_000))
    fetch(share, "0")
    for first in range(1, 2001):
        fetch(share, [(first, first)])
        _released(str(first), 1000.0, share=share)
        share.move_log_start(first + 1)
    assert len(share.in_flight.due) < 200


@each("kind", [GAP, ACCEPT, RELEASE, REJECT, RENEW])
@each("with_token", [True, False])
def test_a_delayed_release_cannot_be_acknowledged(kind: int, with_token: bool) -> None:
    share = opened()
    token = fetch(share, "0-9")[0].token
    _released("0-9", 10.0, share=share)
    with pytest.raises(KafkaError) as refused:
        share.acknowledge("m1", acks("5", kind, token=token if with_token else None), 1.0)
    assert refused.value.metadata == {"offset": "5", "reason": "lock_lost"}
    assert share.release_member("m1") is None
    check(share)


def test_delayed_release_at_the_delivery_limit_archives_at_once() -> None:
    share = opened(stored="0-4 available 1, 5-9 available 4")
    fetch(share, "0-9", now=0.0)
    fetch(share, "0-9", now=0.0)
    transition = share.acknowledge("m1", acks("0-5", RELEASE), 0.0, 10.0)
    assert transition is not None
    assert show(share.write([transition])) == "0: 0-4 available 2, 5 archived 5"
    assert share.complete([transition]) == Completed(False, 0, 0, 1)
    assert picture(share).startswith("0-4 available 2 from 10, 5 archived 5")


def test_lowered_delivery_limit_applies_after_the_next_delivery() -> None:
    share = _released("0-9", 10.0)
    share.settings = SharePartitionSettings(delivery_count_limit=2)
    share.expire(10.0)
    assert ranges(fetch(share, "0-9", now=10.0)) == "0-9 x2"
    assert show(ack(share, "0-9", RELEASE)) == "10:"


def test_failed_write_restores_the_lock_of_the_holder() -> None:
    share = opened()
    token = fetch(share, "0-9")[0].token
    transition = share.acknowledge("m1", acks("0-9", RELEASE), 0.0, 10.0)
    assert transition is not None
    share.complete([transition], ErrorCode.COORDINATOR_NOT_AVAILABLE)
    check(share)
    assert picture(share, members=True) == "0-9 acquired 1 m1"
    assert share.acknowledge("m1", acks("0-9", ACCEPT, token=token), 1.0) is not None


def test_delay_ended_before_its_write_ends_when_it_is_durable() -> None:
    share = opened()
    fetch(share, "0-9")
    transition = share.acknowledge("m1", acks("0-9", RELEASE), 0.0, 1.0)
    assert transition is not None
    assert share.expire(2.0).lost == ()
    done(share, transition)
    assert share.next_deadline() == 1.0
    share.expire(2.0)
    assert picture(share) == "0-9 available 1"


def test_delayed_records_hold_the_spso_but_not_the_log_start() -> None:
    share = _released("0-4", 10.0)
    ack(share, "5-9")
    assert share.start_offset == 0
    assert share.move_log_start(7)
    check(share)
    assert share.start_offset == 10
    assert share.expire(10.0).lost == ()


@pytest.mark.parametrize("delay", [0.001, 1.0, LONGEST_DELAY_MS / 1000])
def test_valid_delays_are_accepted(delay: float) -> None:
    share = _released("0-9", delay)
    assert share.next_deadline() == delay


@pytest.mark.parametrize("delay", [-0.001, -5.0, LONGEST_DELAY_MS / 1000 + 0.001])
def test_delays_out_of_bounds_are_rejected(delay: float) -> None:
    _refused((RELEASE,), delay)


@pytest.mark.parametrize("types", [(GAP,), (ACCEPT,), (REJECT,), (RENEW,), (RELEASE, ACCEPT, RELEASE)])
def test_only_releases_can_be_delayed(types: tuple[int, ...]) -> None:
    _refused(types, 1.0)


def _refused(types: tuple[int, ...], delay: float) -> None:
    share = opened()
    fetch(share, "0-2")
    with pytest.raises(KafkaError) as refused:
        share.acknowledge("m1", acks("0-2", types), 0.0, delay)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert [violation.field for violation in refused.value.violations] == ["delay_ms"]
    assert picture(share) == "0-2 acquired 1"
