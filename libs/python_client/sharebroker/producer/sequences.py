"""The sequence numbers of an idempotent producer (Kafka: enable.idempotence, KIP-98 and KIP-360).

Each partition has sequence numbers of its own, one per record. Its leader recognises a request that it has
appended before by the producer id, the epoch and the sequence numbers, and returns the same offsets.

If the outcome of a request remains unknown, the next sequence number is unknown as well. The partition then
starts with number 0 of a higher epoch, which also fences the request if it is still on its way. Partitions
have different epochs of one producer id, because each leader compares those of its own partition only.

A topic that is deleted and created again has a log without the state of the producer. Its leader waits for
the batches before one that does not start with 0, so the partition starts a new epoch there.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from sharebroker_protocol.records.sequences import MAX_EPOCH, sequence_after

IDLE_SECONDS: Final = 3600.0
"""Seconds without a request after which a partition starts a new epoch.

A leader forgets an idle producer (`producer.id.expiration.ms`, one day). It then waits for the batches before
one that does not start with 0.
"""


class SequenceStart(NamedTuple):
    """The sequence number of a batch's first record."""

    producer_id: int
    epoch: int
    number: int

    def in_next_epoch(self) -> SequenceStart:
        """Returns number 0 of the next epoch, of which a producer id has MAX_EPOCH at most."""
        return SequenceStart(self.producer_id, self.epoch + 1, 0)


class _Partition(NamedTuple):
    next: SequenceStart
    taken_at: float
    topic_id: str = ""


class ProducerSequences:
    """The producer id, and the next sequence number of each partition. Has one user at a time."""

    __slots__ = ("_partitions", "_producer")

    def __init__(self) -> None:
        self._producer: SequenceStart | None = None
        self._partitions: dict[tuple[str, int], _Partition] = {}

    @property
    def needs_producer_id(self) -> bool:
        """Whether `begin` must be called before `take`."""
        return self._producer is None

    def begin(self, producer_id: int, epoch: int) -> None:
        """Sets the producer id that the server assigned, and its epoch."""
        self._producer = SequenceStart(producer_id, epoch, 0)
        self._partitions.clear()

    def take(self, partition: tuple[str, int], count: int, now: float) -> SequenceStart:
        """Returns the first of the next `count` sequence numbers of a partition; `now` is in seconds."""
        assert self._producer is not None
        entry = self._partitions.get(partition, _Partition(self._producer, now))
        start = entry.next
        if now - entry.taken_at >= IDLE_SECONDS and start.epoch < MAX_EPOCH:
            start = start.in_next_epoch()
        following = start._replace(number=sequence_after(start.number, count))
        self._partitions[partition] = _Partition(following, now, entry.topic_id)
        return start

    def written(self, partition: tuple[str, int], topic_id: str) -> None:
        """Stores the id of the topic whose log has the newest request of a partition."""
        entry = self._partitions.get(partition)
        if entry is not None:
            self._partitions[partition] = entry._replace(topic_id=topic_id)

    def moves(self, partition: tuple[str, int], topic_id: str) -> bool:
        """Returns whether a partition has the log of another topic since its newest request was written.

        The next call returns False for the same topic.
        """
        entry = self._partitions.get(partition)
        if entry is None or not entry.topic_id or not topic_id or entry.topic_id == topic_id:
            return False
        self._partitions[partition] = entry._replace(topic_id=topic_id)
        return True

    def restart(self, partition: tuple[str, int]) -> None:
        """Starts a new epoch of a partition; after the last epoch, a new producer id is needed."""
        entry = self._partitions.get(partition)
        if entry is None:
            return
        start = entry.next
        if start.epoch < MAX_EPOCH:
            self._partitions[partition] = entry._replace(next=start.in_next_epoch())
        else:
            self._producer = None
