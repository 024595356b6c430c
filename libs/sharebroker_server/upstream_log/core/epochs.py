"""The leader epochs of what was read from a partition of another cluster, and what was truncated since.

After an unclean leader election an offset may hold another record than before. Records are the same as long
as the epoch of the leader that wrote them is. A log therefore notes the first offset that it read of each
epoch. If the leader changes, it asks the new one where the last of these epochs ends: what lies beyond was
truncated (KIP-320).

Share state is stored apart from these notes. It has the lease epoch of the leader that loaded it last. Each
truncation is noted with a lease epoch that is higher than those of all leaders before it: state with a lower
one may refer to records that do not exist any more.

UpstreamPartition: Kafka's `LeaderEpochFileCache` and `OffsetsForLeaderEpochClient`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

MOST_ENTRIES: Final = 100
"""The most epochs, and the most truncations, that are noted; the oldest are dropped or joined."""

NAME: Final = "u"
"""The name of the stored notes among the snapshots of the partition."""

_FORMAT: Final = 0
_HEAD: Final = struct.Struct(">BHH")
_PAIR: Final = struct.Struct(">iq")


class EpochStart(NamedTuple):
    """A leader epoch, and the lowest offset that was read of it."""

    epoch: int
    offset: int


class Truncation(NamedTuple):
    """State last loaded before `lease_epoch` is void from `offset` on."""

    lease_epoch: int
    offset: int


@dataclass(frozen=True, slots=True)
class EpochHistory:
    """Both ascend, in both fields."""

    epochs: Sequence[EpochStart] = ()
    truncations: Sequence[Truncation] = ()

    @property
    def last_epoch(self) -> int:
        """The highest epoch that was read; -1 for none."""
        return self.epochs[-1].epoch if self.epochs else -1

    def with_read(self, read: Iterable[EpochStart]) -> EpochHistory:
        """Returns the history after reads; this object if they add nothing."""
        starts = dict(self.epochs)
        for epoch, offset in read:
            if epoch >= 0:
                starts[epoch] = min(offset, starts.get(epoch, offset))
        ascending = [EpochStart(*each) for each in sorted(starts.items())]
        epochs = [
            each
            for index, each in enumerate(ascending)
            # Epochs ascend with the offsets: a later epoch cannot begin before an earlier one.
            if all(each.offset < later.offset for later in ascending[index + 1 :])
        ][-MOST_ENTRIES:]
        return self if epochs == list(self.epochs) else replace(self, epochs=tuple(epochs))

    def void_from(self, loaded_under: int) -> int | None:
        """Returns the offset from which state is void that was last loaded under a lease epoch."""
        return min(
            (each.offset for each in self.truncations if each.lease_epoch > loaded_under), default=None
        )

    def truncated(self, offset: int, lease_epoch: int) -> EpochHistory:
        """Returns the history after the log lost its records from `offset` on.

        No state was loaded yet under `lease_epoch`.
        """
        kept = [each for each in self.truncations if each.offset < offset]
        ascending = (*kept, Truncation(lease_epoch, offset))
        while len(ascending) > MOST_ENTRIES:
            # State older than both is void from the lower offset on; state between them as well, to be safe.
            first, second, *rest = ascending
            ascending = (Truncation(second.lease_epoch, first.offset), *rest)
        epochs = tuple(each for each in self.epochs if each.offset < offset)
        return EpochHistory(epochs, ascending)

    def packed(self) -> bytes:
        """Returns the history as it is stored."""
        pairs = (*self.epochs, *self.truncations)
        head = _HEAD.pack(_FORMAT, len(self.epochs), len(self.truncations))
        return head + b"".join(_PAIR.pack(*pair) for pair in pairs)

    @classmethod
    def load(cls, snapshots: Mapping[str, bytes]) -> EpochHistory:
        """Returns the stored history.

        Raises:
            ValueError: it has an unknown format.
        """
        stored = snapshots.get(NAME)
        if stored is None:
            return cls()
        form, epochs, truncations = _HEAD.unpack_from(stored)
        if form != _FORMAT or len(stored) != _HEAD.size + (epochs + truncations) * _PAIR.size:
            raise ValueError(f"the leader epochs of a partition have an unknown format {form}")
        pairs = list(_PAIR.iter_unpack(stored[_HEAD.size :]))
        return cls(
            tuple(EpochStart(*pair) for pair in pairs[:epochs]),
            tuple(Truncation(*pair) for pair in pairs[epochs:]),
        )


@dataclass(slots=True)
class Divergence:
    """Finds where a log and what was read of it differ: ask for `epoch`, apply the `answer`, until `ended`.

    `offset` is the first that differs; None: nothing that was read is known to differ. `is_other`: the leader
    has not reached an epoch that was read. Either it is deposed, or its log is that of another topic.
    """

    epochs: Sequence[EpochStart]
    offset: int | None = None
    is_other: bool = False

    @property
    def epoch(self) -> int:
        """The epoch to ask for."""
        return self.epochs[-1].epoch

    @property
    def ended(self) -> bool:
        """Whether the result is final."""
        return not self.epochs

    def answer(self, leader_epoch: int, end_offset: int, current_epoch: int = -1) -> None:
        """Applies the answer: the largest epoch of the log up to the one asked for, and its end.

        `current_epoch` is that of the leader, -1 if it is unknown.
        """
        if leader_epoch < 0 or end_offset < 0:  # the log has no epochs, or none as high as the one asked for
            self.is_other = 0 <= current_epoch < self.epoch
            self.offset = 0 if self.is_other else self.offset
            self.epochs = ()
            return
        void = [each.offset for each in self.epochs if each.epoch > leader_epoch]
        for offset in (end_offset, *void):
            self.offset = offset if self.offset is None else min(self.offset, offset)
        kept = [each for each in self.epochs if each.epoch <= leader_epoch]
        # The log has this epoch, and with it everything before.
        self.epochs = () if kept and kept[-1].epoch == leader_epoch else kept
