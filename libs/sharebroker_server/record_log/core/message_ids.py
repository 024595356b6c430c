"""The message ids of a partition: the offset of the first record with each id (decision 0093).

A topic with `message.dedup.window.ms` above 0 has such a table. An id is valid for the window from the
timestamp of its batch, at the latest from the append. The table is not stored: a leader rebuilds it from
the log.

An id counts once its record counts. Ids of an open transaction count for this transaction only, and for all
producers after its commit; an abort removes them. So a record that consumers of committed records never see
makes no other record a duplicate.

Ids are stored as hashes of 64 bits (`hash` of bytes: SipHash with a key of the process). A million different
ids have equal hashes among them with a probability of 3e-8.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

MAX_MESSAGE_IDS: Final = 1_000_000
"""The number of ids per partition; beyond it the oldest are removed before their window ends."""

MessageIds: TypeAlias = Sequence[int | None]
"""The hash of each record's message id, None for a record without; empty if no record has one."""

_TIME_BITS: Final = 44
_TIME_MASK: Final = (1 << _TIME_BITS) - 1


class Original(NamedTuple):
    """The first record with an id: its offset and timestamp (ms)."""

    offset: int
    timestamp: int

    def packed(self) -> int:
        """Returns both in one integer, which needs half the memory."""
        return self.offset << _TIME_BITS | self.timestamp

    @classmethod
    def unpack(cls, packed: int) -> Original:
        """Returns the original of an integer."""
        return cls(packed >> _TIME_BITS, packed & _TIME_MASK)


class IdTable:
    """The durable message ids of one partition; only drafts change them."""

    __slots__ = ("_added", "_first", "_limit", "_opened", "_overflowed", "_queued")

    def __init__(self, limit: int = MAX_MESSAGE_IDS) -> None:
        self._limit = limit
        self._overflowed: bool | None = False
        self._first: dict[int, int] = {}
        # In the order of their addition, for expiry: the timestamp of a batch, and the ids of its records.
        self._added: deque[tuple[int, array[int]]] = deque()
        self._queued = 0
        self._opened: dict[int, dict[int, int]] = {}

    def __len__(self) -> int:
        return len(self._first) + sum(map(len, self._opened.values()))

    def find(self, message_id: int) -> int:
        """Returns the packed original that counts for all producers, expired or not; 0 without one."""
        return self._first.get(message_id, 0)

    def of_transaction(self, producer_id: int) -> Mapping[int, int]:
        """Returns the packed originals by id in the producer's open transaction."""
        return self._opened.get(producer_id, {})

    def commit(self, draft: IdDraft) -> None:
        """Applies a draft that is durable now, and removes expired ids."""
        for producer_id in draft.ended:
            self._opened.pop(producer_id, None)
        for producer_id, opened in draft.opened.items():
            self._opened.setdefault(producer_id, {}).update(opened)
        for timestamp, ids in draft.added:
            self._added.append((timestamp, array("q", ids)))
            self._queued += len(ids)
        self._first.update(draft.first)
        self._expire(draft.now_ms - draft.window_ms)

    def _expire(self, oldest_ms: int) -> None:
        """Removes the ids with a timestamp up to `oldest_ms`, and the oldest ones beyond the limit."""
        if (opened := sum(map(len, self._opened.values()))) > self._limit:
            self._overflow()
            self._opened.clear()
            opened = 0
        while self._added and (self._added[0][0] <= oldest_ms or self._queued + opened > self._limit):
            timestamp, ids = self._added.popleft()
            if timestamp > oldest_ms:
                self._overflow()
            self._queued -= len(ids)
            for message_id in ids:
                found = self._first.get(message_id)
                if found is not None and found & _TIME_MASK <= timestamp:
                    del self._first[message_id]

    def _overflow(self) -> None:
        if self._overflowed is False:
            self._overflowed = True

    def first_overflow(self) -> bool:
        """Returns True once: after the limit first removed ids before the end of their window."""
        if not self._overflowed:
            return False
        self._overflowed = None
        return True


class IdDraft:
    """The ids of pending appends; each append sees those before it. Times are in ms."""

    __slots__ = ("_base", "added", "ended", "first", "now_ms", "opened", "window_ms")

    def __init__(self, base: IdTable, window_ms: int, now_ms: int) -> None:
        self._base = base
        self.window_ms = window_ms
        self.now_ms = now_ms
        self.first: dict[int, int] = {}
        self.added: list[tuple[int, list[int]]] = []
        self.opened: dict[int, dict[int, int]] = {}
        self.ended: set[int] = set()

    def originals(self, ids: MessageIds, producer_id: int, base_offset: int) -> list[Original | None]:
        """Returns the original of each record that repeats an earlier one, None for the others.

        The records would be appended at `base_offset`.
        """
        found, new = list[Original | None](), dict[int, Original]()
        for offset, message_id in enumerate(ids, base_offset):
            original = None
            if message_id is not None:
                original = self._find(message_id, producer_id) or new.get(message_id)
                if original is None:
                    new[message_id] = Original(offset, self.now_ms)
            found.append(original)
        return found

    def add(
        self,
        base_offset: int,
        ids: MessageIds,
        timestamp: int,
        repeated: Iterable[bool],
        transaction: int = -1,
    ) -> None:
        """Adds the records of a batch that are no duplicates; `transaction` is its producer id, or -1.

        A batch without a timestamp, or with a future one, gets the current time.
        """
        time = min(timestamp, self.now_ms) if timestamp >= 0 else self.now_ms
        new = {
            message_id: Original(offset, time).packed()
            for offset, (message_id, known) in enumerate(zip(ids, repeated, strict=True), base_offset)
            if message_id is not None and not known
        }
        if new and transaction >= 0:
            self.opened.setdefault(transaction, {}).update(new)
        elif new:
            self._count(new)

    def end(self, producer_id: int, *, commit: bool) -> None:
        """Ends the producer's transaction: its ids count for all producers, or no longer."""
        stored = {} if producer_id in self.ended else self._base.of_transaction(producer_id)
        opened = {**stored, **self.opened.pop(producer_id, {})}
        self.ended.add(producer_id)
        # A record with the same id may have been appended beside the transaction: the younger one stays.
        new = {
            message_id: packed
            for message_id, packed in opened.items()
            if (packed & _TIME_MASK) > self._counted(message_id) & _TIME_MASK
        }
        if commit and new:
            self._count(new)

    def _counted(self, message_id: int) -> int:
        """Returns the packed original that counts for all producers, 0 without one."""
        return self.first.get(message_id) or self._base.find(message_id)

    def _count(self, new: Mapping[int, int]) -> None:
        self.first.update(new)
        self.added.append((max(packed & _TIME_MASK for packed in new.values()), list(new)))

    def _find(self, message_id: int, producer_id: int) -> Original | None:
        """Returns the original of a record: the younger of those that count, unless it has expired."""
        packed = self._counted(message_id)
        if producer_id >= 0:
            stored = {} if producer_id in self.ended else self._base.of_transaction(producer_id)
            opened = self.opened.get(producer_id, {}).get(message_id) or stored.get(message_id, 0)
            if (opened & _TIME_MASK) > packed & _TIME_MASK:
                packed = opened
        original = Original.unpack(packed)
        return original if packed and original.timestamp > self.now_ms - self.window_ms else None


def repeated_run(originals: Sequence[Original | None]) -> Original | None:
    """Returns the original of the first record if all records repeat consecutive records of the log."""
    first = originals[0] if originals else None
    if first is None:
        return None
    for offset, original in enumerate(originals, first.offset):
        if original is None or original.offset != offset:
            return None
    return first


def repeated_offsets(originals: Sequence[Original | None]) -> tuple[int, ...]:
    """Returns the offset of each original if all records repeat earlier ones; otherwise nothing."""
    known = [original.offset for original in originals if original is not None]
    return tuple(known) if len(known) == len(originals) else ()


def repeated_ranges(originals: Sequence[Original | None], base_offset: int) -> list[tuple[int, int]]:
    """Returns the first and last offset of each run of duplicates in records from `base_offset` on."""
    ranges: list[tuple[int, int]] = []
    for offset, original in enumerate(originals, base_offset):
        if original is None:
            continue
        if ranges and ranges[-1][1] == offset - 1:
            ranges[-1] = (ranges[-1][0], offset)
        else:
            ranges.append((offset, offset))
    return ranges
