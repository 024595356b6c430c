"""Computes the credit of a consume stream from the application's polls and its processing rate."""

from __future__ import annotations

from sharebroker.consumer.prefetch_window import PrefetchWindow


class FlowControl:
    """Decides how many records the server may send.

    `max_poll_records` and `prefetch_records` are the consumer's settings. `now` is a monotonic clock in
    seconds. *Outstanding* is credit that was granted and for which no record has arrived.

    A poll (list of records) gets credit for `max_poll_records` while it waits. After it returned, credit
    covers `prefetch_records`, and a negative credit withdraws the excess. An iteration (record by record)
    gets credit for the prefetch window. Prefetching stops when the application does not poll for a while or
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
        return max(0, limit - held - outstanding)
