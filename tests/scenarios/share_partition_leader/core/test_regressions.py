"""Bugs of Kafka's share-partition leader, as far as they are possible here; named by their tickets."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.share_partition_leader.core.events import SharePartitionSettings
from tests.testkit.tables import each
from tests.unit.share_partition_leader.core.support import (
    LIMITED,
    RELEASE,
    Store,
    ack,
    acks,
    check,
    done,
    fetch,
    opened,
    picture,
    ranges,
    show,
)


def test_kafka_18494_gaps_at_load_are_delivered() -> None:
    share = opened(0, "10-19 acknowledged 1, 25-29 available 2")
    assert ranges(fetch(share, "0-29 30-39")) == "0-9 x1, 20-24 x1, 25-29 x3, 30-39 x1"


@pytest.mark.parametrize("first", [0, 3, 7])
def test_kafka_19632_a_batch_across_the_spso_is_acquired_from_the_spso(first: int) -> None:
    share = opened(first, f"{first + 5}-19 available 1")
    assert ranges(fetch(share, "0-19")) == f"{first}-{first + 4} x1, {first + 5}-19 x2"


def test_kafka_19808_at_capacity_batches_do_not_overlap() -> None:
    share = opened(settings=SharePartitionSettings(max_record_locks=15))
    fetch(share, "0-9")
    fetch(share, "10-29")
    ack(share, "5-14", RELEASE)
    assert ranges(fetch(share, "0-9 10-29 30-39")) == "5-9 x2, 10-14 x2"
    check(share)


@each("most", range(1, 12))
def test_kafka_19954_a_strict_limit_leaves_no_gap_and_no_overlap(most: int) -> None:
    share = opened()
    seen: list[int] = []
    log = [(base, base + 6) for base in range(0, 70, 7)]
    while acquired := fetch(share, log, most=most, mode=LIMITED):
        seen += [offset for a in acquired for offset in range(a.first, a.last + 1)]
    assert seen == list(range(70))


def test_kafka_19954_reloaded_state_with_other_boundaries() -> None:
    share = opened(4, "4-6 available 1, 12-17 available 2")
    assert ranges(fetch(share, "0-9 10-19 20-29")) == "4-6 x2, 7-11 x1, 12-17 x3, 18-29 x1"
    check(share)


@pytest.mark.parametrize("error", [None, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_kafka_19859_an_acknowledgement_across_a_moved_log_start_applies(error: ErrorCode | None) -> None:
    share = opened()
    fetch(share, "0-9 10-19", size=10)
    pending = share.acknowledge("m1", acks("0-9"), 0.0)
    assert pending is not None
    share.move_log_start(5)
    share.complete([pending], error)
    check(share)
    assert share.start_offset == (10 if error is None else 5)


def test_kafka_19953_a_session_release_skips_records_of_other_members() -> None:
    share = opened()
    fetch(share, "0-9", "m1")
    for offset in ("2", "5", "8"):
        ack(share, offset, RELEASE)
    fetch(share, "0-9", "m2")
    transition = share.release_member("m1")
    assert transition is not None
    done(share, transition)
    assert picture(share, members=True) == (
        "0-1 available 1, 2 acquired 2 m2, 3-4 available 1, 5 acquired 2 m2, "
        "6-7 available 1, 8 acquired 2 m2, 9 available 1"
    )


def test_kafka_19476_a_lock_due_during_a_failing_write_times_out() -> None:
    share = opened()
    fetch(share, "0-9", now=0.0)
    pending = share.acknowledge("m1", acks("0-9"), 29.0)
    assert pending is not None
    share.expire(30.0)
    share.complete([pending], ErrorCode.COORDINATOR_NOT_AVAILABLE)
    deadline = share.next_deadline()
    assert deadline is not None
    share.expire(deadline)
    assert ranges(fetch(share, "0-9", "m2", now=31.0)) == "0-9 x2"


def test_kafka_19476_a_lock_timeout_after_the_log_start_moved() -> None:
    share = opened()
    fetch(share, "0-9 10-19", size=10, now=0.0)
    share.move_log_start(10)
    assert [(lost.first, lost.last) for lost in share.expire(30.0).lost] == [(10, 19)]


def test_kafka_19463_records_in_transition_are_not_the_next_to_fetch() -> None:
    share = opened()
    fetch(share, "0-9")
    pending = share.acknowledge("m1", acks("0-9", RELEASE), 0.0)
    assert share.next_fetch_offset() == 10
    assert pending is not None
    share.complete([pending])
    assert share.next_fetch_offset() == 0


def test_kafka_17351_a_compacted_batch_does_not_stop_the_partition() -> None:
    share = opened(0, "0-9 available 2")
    assert share.next_fetch_offset() == 0
    assert ranges(fetch(share, "20-29")) == "20-29 x1"
    assert (share.start_offset, share.next_fetch_offset()) == (20, 30)


def test_rejected_batch_undoes_earlier_ones_of_its_request() -> None:
    share = opened()
    fetch(share, "0-9", "m1")
    fetch(share, "10-19", "m2")
    with pytest.raises(KafkaError):
        share.acknowledge("m1", acks("0-9 10-12"), 0.0)
    assert share.start_offset == 0
    assert show(ack(share, "0-9")) == "10:"


def test_pull_request_23074_a_later_write_keeps_the_higher_start_offset() -> None:
    """The second write was built while the first was in flight: its SPSO is the older one."""
    share, store = opened(), Store()
    fetch(share, "0-9 10-19", size=10)
    first = share.acknowledge("m1", acks("0-9"), 0.0)
    second = share.acknowledge("m1", acks("10-19"), 0.0)
    assert first is not None
    assert second is not None
    for transition in (first, second):
        store.apply(share.write([transition]))
    assert (store.start, sorted(store.records)) == (10, list(range(10, 20)))
    share.complete([first])
    share.complete([second])
    store.apply(share.write())
    assert (store.start, store.records) == (20, {})
