"""The sequence numbers of a producer: per partition, with a new epoch after an unknown outcome."""

from __future__ import annotations

from sharebroker.producer.sequences import IDLE_SECONDS, ProducerSequences
from sharebroker_protocol.records.sequences import MAX_EPOCH, SEQUENCES

A, B = ("t", 0), ("t", 1)


def begun(epoch: int = 0) -> ProducerSequences:
    sequences = ProducerSequences()
    assert sequences.needs_producer_id
    sequences.begin(7, epoch)
    assert not sequences.needs_producer_id
    return sequences


def test_each_partition_counts_its_own_records() -> None:
    sequences = begun(epoch=2)
    taken = [sequences.take(partition, 3, 0.0) for partition in (A, B, A)]
    assert taken == [(7, 2, 0), (7, 2, 0), (7, 2, 3)]


def test_sequences_wrap_around() -> None:
    sequences = begun()
    sequences.take(A, SEQUENCES - 1, 0.0)
    assert [sequences.take(A, 2, 0.0).number for _ in range(2)] == [SEQUENCES - 1, 1]


def test_a_restart_begins_a_new_epoch_of_one_partition() -> None:
    sequences = begun()
    for partition in (A, B):
        sequences.take(partition, 5, 0.0)
    sequences.restart(A)
    assert [sequences.take(partition, 1, 0.0) for partition in (A, B)] == [(7, 1, 0), (7, 0, 5)]


def test_a_partition_that_was_never_used_has_nothing_to_restart() -> None:
    sequences = begun()
    sequences.restart(A)
    assert sequences.take(A, 1, 0.0) == (7, 0, 0)


def test_an_idle_partition_begins_a_new_epoch() -> None:
    """Its leader may have forgotten the producer, and would wait for the batches before."""
    sequences = begun()
    sequences.take(A, 5, 0.0)
    assert sequences.take(A, 5, IDLE_SECONDS - 1) == (7, 0, 5)
    assert sequences.take(A, 5, 2 * IDLE_SECONDS) == (7, 1, 0)


def test_a_new_producer_id_follows_the_last_epoch() -> None:
    sequences = begun(epoch=MAX_EPOCH)
    for partition in (A, B):
        sequences.take(partition, 5, 0.0)
    assert sequences.take(A, 5, 2 * IDLE_SECONDS) == (7, MAX_EPOCH, 5)
    sequences.restart(A)
    assert sequences.needs_producer_id
    sequences.begin(8, 0)
    assert [sequences.take(partition, 1, 0.0) for partition in (A, B)] == [(8, 0, 0), (8, 0, 0)]


def test_a_partition_moves_once_to_the_log_of_another_topic() -> None:
    sequences = begun()
    assert not sequences.moves(A, "first")
    sequences.take(A, 1, 0.0)
    assert not sequences.moves(A, "first")  # no request was written
    sequences.written(A, "first")
    sequences.take(A, 1, 1.0)
    assert [sequences.moves(A, topic_id) for topic_id in ("", "first", "second", "second")] == [
        False,
        False,
        True,
        False,
    ]
