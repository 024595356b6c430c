"""Computes the credit of a consume stream from the application's polls and its processing rate."""

from __future__ import annotations

from typing import Final

_INITIAL_WINDOW: Final = 16
_AHEAD: Final = 1.0


class PrefetchWindow:
    """A window that starts at 16 records, doubles while the application keeps up, and shrinks when it is
    slow.

    It covers the work of `ahead` seconds, so that locks do not time out on prefetched records. `limit` is its
    largest size. `now` is a monotonic clock in seconds.
    """

    __slots__ = ("_limit", "_returned", "_returned_at", "ahead", "window")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._returned_at = 0.0
        self._returned = 0
        self.ahead = _AHEAD
        """Seconds of work that the window covers."""
        self.window = min(_INITIAL_WINDOW, limit)
        """The number of records to hold at most."""

    def set_lock_timeout(self, lock_timeout: float) -> None:
        """Limits `ahead` to a quarter of the lock timeout (seconds), and to one second."""
        self.ahead = min(_AHEAD, lock_timeout / 4)

    def poll_returned(self, records: int, now: float) -> None:
        """Starts measuring how long the application takes for this number of records."""
        self._returned_at = now
        self._returned = records

    def poll_started(self, now: float) -> None:
        """Adapts the window: the application finished the records of the last poll and waits for more."""
        if self._returned == 0:
            return
        elapsed = now - self._returned_at
        target = self._limit if elapsed <= 0 else int(self._returned * self.ahead / elapsed)
        self.window = max(1, min(target, self.window * 2, self._limit))
        self._returned = 0


class FlowControl:
    """Decides how many records the server may send.

    `max_poll_records` and `prefetch_records` are the consumer's settings. `now` is a monotonic clock in
    seconds. *Outstanding* is credit that was granted and for which no record has arrived.

    A poll (list of records) gets credit for `max_poll_records` while it waits. After it returned, credit
    covers `prefetch_records`, and a negative credit withdraws the excess. An iteration (record by record)
    gets credit for the prefetch window. While it waits, it gets credit for one record whatever it holds, up
    to `max_poll_records` + `prefetch_records`: a window that became small for slow work must not limit how
    many records are worked on at a time. Prefetching stops when the application does not poll for a while or
    loses a lock, and resumes with the next poll.
    """

    __slots__ = (
        "_max_poll_records",
        "_polls_lists",
        "_prefetch_records",
        "_prefetching",
        "_returned_at",
        "polling",
        "prefetch_window",
    )

    def __init__(self, max_poll_records: int, prefetch_records: int) -> None:
        self._max_poll_records = max_poll_records
        self._prefetch_records = prefetch_records
        self._prefetching = self._polls_lists = False
        self._returned_at = 0.0
        self.polling = False
        """Whether the application is waiting for records at this moment."""
        self.prefetch_window = PrefetchWindow(max_poll_records + prefetch_records)

    def poll_started(self, now: float, *, poll: bool) -> None:
        """Records that the application waits for records: a list of them with `poll`, else the next one."""
        self.prefetch_window.poll_started(now)
        self._polls_lists = poll
        self._prefetching = self.polling = True

    def poll_returned(self, now: float) -> None:
        """Records that the application received its records, or nothing, and continues its own work."""
        self._returned_at = now
        self.polling = False

    def stop_prefetch(self) -> None:
        """Stops prefetching until the next poll. Has no effect while a poll waits."""
        self._prefetching = self.polling

    def stop_prefetch_after(self, seconds: float, now: float) -> bool:
        """Stops prefetching if the last poll returned `seconds` ago; returns whether it was active before."""
        was_prefetching = self._prefetching
        if now - self._returned_at >= seconds:
            self.stop_prefetch()
        return was_prefetching and not self._prefetching

    @property
    def discards_late_records(self) -> bool:
        """Whether records that arrive after the poll returned are undone instead of kept for the next."""
        return self._polls_lists and not self.polling and self._prefetch_records == 0

    def credit(self, held: int, outstanding: int) -> int:
        """Returns the credit to send, given the records held and outstanding; negative withdraws credit."""
        if not self.polling and (self._polls_lists or not self._prefetching):
            limit = self._prefetch_records if self._prefetching else 0
            if outstanding > limit:
                return limit - outstanding
        if not self._prefetching:
            return 0
        limit = self.prefetch_window.window
        if self._polls_lists:
            limit = min(limit, self._prefetch_records)
            if self.polling:
                limit = max(limit, self._max_poll_records)
        elif self.polling:
            limit = max(limit, min(held + 1, self._max_poll_records + self._prefetch_records))
        return max(0, limit - held - outstanding)
