"""A naive model of share-partition state: one value per offset."""

from __future__ import annotations

from collections.abc import Iterable

from sharebroker_protocol.model import StateBatch


class NaiveRuns:
    """(delivery count, state) of every offset; the greater one is kept."""

    def __init__(self) -> None:
        self.values: dict[int, tuple[int, int]] = {}

    def add(self, batches: Iterable[StateBatch], start_offset: int) -> None:
        for first, last, state, count in batches:
            for offset in range(first, last + 1):
                self.values[offset] = max(self.values.get(offset, (-1, -1)), (count, state))
        self.values = {offset: value for offset, value in self.values.items() if offset >= start_offset}

    def runs(self) -> list[StateBatch]:
        runs: list[StateBatch] = []
        for offset, (count, state) in sorted(self.values.items()):
            if runs and runs[-1][1:] == (offset - 1, state, count):
                runs[-1] = runs[-1]._replace(last=offset)
            else:
                runs.append(StateBatch(offset, offset, state, count))
        return runs
