"""A naive model of share-partition state: one value per offset."""

from __future__ import annotations

from collections.abc import Iterable

from sharebroker_protocol.model import StateBatch, StateNote


class NaiveRuns:
    """((delivery count, state), note) of every offset.

    The greater count and state are kept, and the newer note if they are equal.
    """

    def __init__(self) -> None:
        self.values: dict[int, tuple[tuple[int, int], StateNote | None]] = {}

    def add(self, batches: Iterable[StateBatch], start_offset: int) -> None:
        for first, last, state, count, note in batches:
            for offset in range(first, last + 1):
                if (count, state) >= self.values.get(offset, ((-1, -1), None))[0]:
                    self.values[offset] = (count, state), note
        self.values = {offset: value for offset, value in self.values.items() if offset >= start_offset}

    def runs(self) -> list[StateBatch]:
        runs: list[StateBatch] = []
        for offset, ((count, state), note) in sorted(self.values.items(), key=lambda item: item[0]):
            if runs and runs[-1][1:] == (offset - 1, state, count, note):
                runs[-1] = runs[-1]._replace(last=offset)
            else:
                runs.append(StateBatch(offset, offset, state, count, note))
        return runs
