"""FailedDelivery backoff: delays by delivery count, their limits and their variation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.model import StateBatch, StateNote
from sharebroker_server.share_partition_leader.core.backoff import FailedDelivery, RetryBackoff, RetryCause
from sharebroker_server.share_partition_leader.core.events import (
    LoadedState,
    SharePartitionSettings,
    TimerFired,
)
from tests.unit.share_partition_leader.core.stepped import SteppedPartition
from tests.unit.share_partition_leader.core.support import (
    RELEASE,
    ack,
    acks,
    check,
    done,
    fetch,
    opened,
    picture,
    ranges,
)

DAY = 86_400_000


def backoff(
    first: int = 1000,
    multiplier: float = 2.0,
    longest: int = 60_000,
    jitter: float = 0.0,
    on: str = "release timeout",
) -> RetryBackoff:
    return RetryBackoff(first, multiplier, longest, jitter, frozenset(on.split()), DAY)


def retrying(rules: RetryBackoff | None = None, delivery_count_limit: int = 5) -> SteppedPartition:
    return opened(settings=SharePartitionSettings(delivery_count_limit, backoff=rules or backoff()))


@pytest.mark.parametrize(
    ("rules", "delays"),
    [
        pytest.param(backoff(), [1000, 2000, 4000, 8000], id="doubles"),
        pytest.param(backoff(multiplier=1.0), [1000, 1000, 1000, 1000], id="constant"),
        pytest.param(backoff(multiplier=1.5), [1000, 1500, 2250, 3375], id="a fraction"),
        pytest.param(backoff(longest=3000), [1000, 2000, 3000, 3000], id="at most"),
        pytest.param(backoff(longest=500), [500, 500, 500, 500], id="less than the first"),
        pytest.param(backoff()._replace(limit_ms=1500), [1000, 1500, 1500, 1500], id="the broker's limit"),
        pytest.param(backoff()._replace(limit_ms=0), [0, 0, 0, 0], id="the broker permits none"),
    ],
)
def test_delay_grows_with_the_deliveries_up_to_its_limits(rules: RetryBackoff, delays: list[int]) -> None:
    assert [rules.delay_ms(count, seed=7) for count in (1, 2, 3, 4)] == delays


@given(st.integers(1, 32_767), st.integers(), st.floats(1, 1000), st.integers(1, DAY))
def test_delay_varies_by_the_jitter_at_most(count: int, seed: int, multiplier: float, longest: int) -> None:
    rules = backoff(multiplier=multiplier, longest=longest, jitter=0.2)
    plain, varied = rules._replace(jitter=0.0).delay_ms(count, seed), rules.delay_ms(count, seed)
    assert plain * 0.799 <= varied <= min(plain * 1.201, DAY)
    assert varied == rules.delay_ms(count, seed)


def test_records_that_fail_together_return_at_different_times() -> None:
    rules = backoff(jitter=0.2)
    delays = {rules.delay_ms(1, hash((offset, 1 << 32))) for offset in range(100)}
    assert len(delays) > 90
    assert max(delays) - min(delays) > 300


@pytest.mark.parametrize(
    ("delay", "rules", "time"),
    [
        (None, None, 0),
        (None, backoff(), 6000),
        (0.0, backoff(), 0),
        (0.5, backoff(), 5001),
        (250.0, None, 5250),
    ],
)
def test_explicit_delay_takes_precedence_over_the_backoff(
    delay: float | None, rules: RetryBackoff | None, time: int
) -> None:
    assert FailedDelivery(5000.0, delay, rules).not_before_ms(0, 1, 1) == time


def test_released_record_waits_longer_after_each_delivery() -> None:
    share, now, seen = retrying(delivery_count_limit=10), 0.0, []
    for _ in range(4):
        share.expire(now)
        assert ranges(fetch(share, "0-9", now=now)).startswith("0-9 ")
        written = ack(share, "0-9", RELEASE, now=now)
        assert written is not None
        assert fetch(share, "0-9", now=now) == []
        now = share.in_flight.due[0][0] / 1000
        seen.append((now, written.batches))
    assert [time for time, _ in seen] == [1.0, 3.0, 7.0, 15.0]
    assert seen[-1][1] == (StateBatch(0, 9, 0, 4, StateNote(15_000)),)


def test_last_delivery_is_archived_at_once() -> None:
    share = retrying(delivery_count_limit=2)
    fetch(share, "0-9")
    ack(share, "0-9", RELEASE, now=0.0)
    share.expire(1.0)
    fetch(share, "0-9", now=1.0)
    ack(share, "0-9", RELEASE, now=1.0)
    assert (picture(share), share.start_offset, share.in_flight.waiting) == ("", 10, 0)


def test_delay_of_a_lock_timeout_is_written() -> None:
    share = retrying()
    fetch(share, "0-9", now=0.0)
    expired = share.expire(30.0)
    check(share)
    assert expired.transition is not None
    assert done(share, expired.transition).batches == (StateBatch(0, 9, 0, 1, StateNote(31_000)),)
    assert picture(share) == "0-9 available 1 from 31"
    assert share.next_deadline() == 31.0


@pytest.mark.parametrize(
    ("cause", "waits"), [("release", True), ("timeout", False), ("session", False), ("session release", True)]
)
def test_only_the_configured_failures_delay_a_release(cause: str, waits: bool) -> None:
    share = retrying(backoff(on=cause))
    fetch(share, "0-9")
    ack(share, "0-9", RELEASE, now=0.0)
    assert bool(share.in_flight.waiting) is waits


@pytest.mark.parametrize(("cause", "waits"), [("release", False), ("timeout", True), ("session", False)])
def test_only_the_configured_failures_delay_a_lock_timeout(cause: str, waits: bool) -> None:
    share = retrying(backoff(on=cause))
    fetch(share, "0-9")
    share.expire(30.0)
    assert bool(share.in_flight.waiting) is waits


@pytest.mark.parametrize(("cause", "waits"), [("release", False), ("timeout", False), ("session", True)])
def test_only_the_configured_failures_delay_records_of_a_session(cause: str, waits: bool) -> None:
    share = retrying(backoff(on=cause))
    fetch(share, "0-9")
    released = share.release_member("m1", now=5.0)
    assert released is not None
    done(share, released)
    assert bool(share.in_flight.waiting) is waits


def test_undone_acquisition_has_no_delay() -> None:
    share = retrying()
    fetch(share, "0-9")
    share.undo_acquire("m1", acks("0-9", RELEASE))
    assert picture(share) == "0-9 available 0"


def test_lowered_limits_keep_stored_times() -> None:
    share = retrying()
    fetch(share, "0-9")
    ack(share, "0-9", RELEASE, now=0.0)
    share.settings = SharePartitionSettings(backoff=backoff(first=1, longest=1))
    assert picture(share) == "0-9 available 1 from 1"
    assert share.next_deadline() == 1.0


def test_new_leader_continues_a_delay_by_the_stored_clock() -> None:
    stored = (StateBatch(0, 4, 0, 1, StateNote(20_000)), StateBatch(5, 9, 0, 2, StateNote(5_000)))
    loaded = LoadedState(3, 8, 0, stored, clock_offset_ms=2_000.0)  # stored times are 2 s ahead
    share = SteppedPartition(SharePartitionSettings(), loaded)
    check(share)
    assert share.handle(TimerFired(), 10.0).deadline == 18.0
    assert ranges(fetch(share, "0-9", now=10.0)) == "5-9 x3"
    assert not share.handle(TimerFired(), 17.999).wake
    assert share.handle(TimerFired(), 18.0).wake
    assert ranges(fetch(share, "0-9", now=18.0)) == "0-4 x2"
    transition = share.acknowledge("m1", acks("0-4", RELEASE), 18.0, 7.0)
    assert transition is not None
    assert share.write([transition]).batches == (StateBatch(0, 4, 0, 2, StateNote(27_000)),)


def test_planned_batch_leaves_a_record_that_waits() -> None:
    share = retrying()
    fetch(share, "0-9")
    ack(share, "0-4", RELEASE, now=0.0)
    reconciled = share.reconcile("m1", acks("0-9"), 10, 0.5)
    assert [(one.first, one.last, one.reason.name) for one in reconciled.left] == [(0, 4, "TAKEN")]


def test_causes_are_the_values_of_the_property() -> None:
    assert set(RetryCause) == {"release", "timeout", "session"}


def test_released_records_of_one_acknowledgement_have_one_time() -> None:
    share = retrying(backoff(jitter=0.2))
    fetch(share, "0-499")
    ack(share, "0-499", RELEASE, now=0.0)
    assert len(share.in_flight.runs) == 1


def test_a_wait_beyond_a_day_is_rejected() -> None:
    share = retrying()
    fetch(share, "0-9")
    with pytest.raises(KafkaError, match="delay_ms"):
        share.acknowledge("m1", acks("0-9", RELEASE), 0.0, 86_400.001)
