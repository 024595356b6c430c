"""A share consumer on one partition: scenarios of Kafka's ShareConsumerTest."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.share_partition_leader.core.events import LoadedState, SharePartitionSettings
from tests.unit.share_partition_leader.core.stepped import SteppedPartition
from tests.unit.share_partition_leader.core.support import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    Store,
    ack,
    acks,
    done,
    fetch,
    log_of,
    offsets,
    opened,
    ranges,
    show,
)

# --- acknowledgement


def test_accepted_records_are_not_delivered_again() -> None:
    share = opened()
    fetch(share, "0")
    ack(share, "0")
    assert ranges(fetch(share, "0 1", "m2")) == "1 x1"


def test_released_records_are_redelivered_and_accepted() -> None:
    share = opened()
    fetch(share, "0")
    ack(share, "0", RELEASE)
    assert ranges(fetch(share, "0")) == "0 x2"
    ack(share, "0")
    assert fetch(share, "0") == []


@pytest.mark.parametrize("kind", [ACCEPT, REJECT, GAP])
def test_accept_and_reject_finish_records(kind: int) -> None:
    share = opened()
    fetch(share, "0-9")
    assert show(ack(share, "0-9", kind)) == "10:"


def test_lock_timeout_on_consumer() -> None:
    """Redelivered with count 2; the late acknowledgement is rejected and changes nothing."""
    share = opened(settings=SharePartitionSettings(lock_duration=15.0))
    token = fetch(share, "0", "m1", now=0.0)[0].token
    share.expire(20.0)
    assert ranges(fetch(share, "0", "m2", now=20.0)) == "0 x2"
    with pytest.raises(KafkaError) as refused:
        share.acknowledge("m1", acks("0", ACCEPT, token), 21.0)
    assert refused.value.code is ErrorCode.INVALID_RECORD_STATE
    assert refused.value.metadata == {"offset": "0", "reason": "held_by_another_member"}
    assert show(ack(share, "0", member="m2")) == "1:"


def test_records_are_accepted_released_and_rejected_individually() -> None:
    """Next fetch: 10-19 only, 0-9 with count 2 and 10-19, 10-19 only."""
    seen = {}
    for kind in (ACCEPT, RELEASE, REJECT):
        share = opened()
        fetch(share, " ".join(map(str, range(10))))
        ack(share, "0-9", kind)
        seen[kind] = ranges(fetch(share, " ".join(map(str, range(20)))))
    assert seen == {ACCEPT: "10-19 x1", RELEASE: "0-9 x2, 10-19 x1", REJECT: "10-19 x1"}


def test_two_members_get_disjoint_ranges() -> None:
    share = opened()
    log = " ".join(map(str, range(20)))
    assert ranges(fetch(share, log, "m1", most=10)) == "0-9 x1"
    assert ranges(fetch(share, log, "m2", most=10)) == "10-19 x1"


def test_two_groups_get_identical_ranges() -> None:
    assert ranges(fetch(opened(), "0-9")) == ranges(fetch(opened(), "0-9")) == "0-9 x1"


# --- renewal (KIP-1222)


def test_renewed_records_stay_and_others_are_finished() -> None:
    share = opened()
    fetch(share, "0-9", now=0.0)
    written = ack(share, "0-9", (ACCEPT,) * 5 + (RENEW,) * 5, now=20.0)
    assert show(written) == "5:"
    assert share.expire(40.0).lost == ()
    assert fetch(share, "0-9 10", now=40.0) != []
    assert show(ack(share, "5-9", now=45.0)) == "10:"


def test_renewing_a_finished_record_is_rejected() -> None:
    share = opened()
    fetch(share, "0-9")
    ack(share, "5", REJECT)
    with pytest.raises(KafkaError, match="already acknowledged"):
        share.acknowledge("m1", acks("5", RENEW), 0.0)


def test_changed_lock_duration_counts_from_the_renewal() -> None:
    share = opened()
    fetch(share, "0-9", now=0.0)
    share.settings = SharePartitionSettings(lock_duration=25.0)
    ack(share, "0-9", RENEW, now=10.0)
    assert share.expire(34.0).lost == ()
    assert share.expire(35.0).lost != ()


# --- groups and failures


def test_records_of_a_closed_consumer_are_redelivered_to_another() -> None:
    share = opened()
    assert len(offsets(fetch(share, "0-99", "m1"))) == 100
    ack(share, "0-49")
    transition = share.release_member("m1")
    assert transition is not None
    done(share, transition)
    assert offsets(fetch(share, "0-99", "m2")) == list(range(50, 100))


def test_mixed_acknowledgements_finish_every_record() -> None:
    """testComplexShareConsumer: accept, reject, release and no acknowledgement in turn; in the end all is
    finished.
    """
    share, now, deliveries = opened(), 0.0, 0
    log = [(base, base + 99) for base in range(0, 400, 100)]
    while share.start_offset < 400:
        now += 40.0
        share.expire(now)
        for offset in offsets(fetch(share, log, now=now)):
            deliveries += 1
            word = (ACCEPT, REJECT, RELEASE, None)[offset % 4]
            if word is not None:
                ack(share, str(offset), word, now=now)
    # A quarter is released and a quarter times out: five deliveries each; the other half needs one.
    assert deliveries == 200 + 200 * 5
    assert share.in_flight_count == 0


def test_share_coordinator_moves_and_nothing_is_lost_or_repeated() -> None:
    """Every second write fails; the acknowledgement is sent again."""
    share, store = opened(), Store()
    finished: list[int] = []
    log = [(base, base + 9) for base in range(0, 200, 10)]
    for attempt in range(1000):
        acquired = fetch(share, log, most=10, now=float(attempt))
        if not acquired:
            break
        for piece in acquired:
            for error in (ErrorCode.NOT_COORDINATOR, None):
                transition = share.acknowledge("m1", acks(f"{piece.first}-{piece.last}"), 0.0)
                assert transition is not None
                if error is None:
                    store.apply(share.write([transition]))
                share.complete([transition], error)
            finished += range(piece.first, piece.last + 1)
    assert finished == list(range(200))
    assert store.start == 200


# --- leader change


def test_new_leader_rejects_the_old_leaders_tokens() -> None:
    old = opened(leader_epoch=1)
    token = fetch(old, "0-9")[0].token
    new = opened(leader_epoch=2)
    assert ranges(fetch(new, "0-9")) == "0-9 x1"
    with pytest.raises(KafkaError, match="stale token"):
        new.acknowledge("m1", acks("0-9", token=token), 0.0)


def test_a_new_leader_keeps_delivery_counts_of_releases() -> None:
    share, store = opened(), Store()
    fetch(share, "0-9")
    store.apply(ack(share, "0-4", RELEASE) or share.write())
    new = SteppedPartition(SharePartitionSettings(), store.loaded())
    assert ranges(fetch(new, "0-9")) == "0-4 x2, 5-9 x1"


# --- lag


def _lag(share: SteppedPartition, end: int) -> int:
    return end - share.start_offset - share.delivery_complete_count


def test_only_acknowledgements_reduce_the_lag() -> None:
    """testSharePartitionLag…: acquiring and releasing change nothing, accepting and rejecting do."""
    share = opened()
    fetch(share, "0-9")
    assert _lag(share, 10) == 10
    ack(share, "9", RELEASE)
    assert _lag(share, 10) == 10
    ack(share, "5", REJECT)
    assert _lag(share, 10) == 9
    ack(share, "0")
    assert _lag(share, 10) == 8
    ack(share, "1-4")
    ack(share, "6-8")
    fetch(share, "0-9")
    ack(share, "9")
    assert _lag(share, 10) == 0


def test_lag_after_an_alteration() -> None:
    """testSharePartitionLagAfterAlterShareGroupOffsets: 105 records, altered to 40."""
    share = SteppedPartition(SharePartitionSettings(), LoadedState(4, 1, 40))
    assert _lag(share, 105) == 65
    assert ranges(fetch(share, "0-104")) == "40-104 x1"


# --- isolation


def test_aborted_transactions_are_archived_and_markers_are_gaps() -> None:
    """Ten transactions of one record and a marker, every fifth aborted: eight records arrive."""
    share = opened()
    log = [(offset, offset) for offset in range(20)]
    acquired = fetch(share, log, size=1)
    aborted = log_of("8 18")
    kept = share.archive_aborted(acquired, aborted)
    records = [offset for offset in offsets(kept) if offset % 2 == 0]
    assert len(records) == 8
    types = {offset: ACCEPT if offset % 2 == 0 else GAP for offset in offsets(kept)}
    for offset, kind in types.items():
        ack(share, str(offset), kind)
    assert share.start_offset == 20
