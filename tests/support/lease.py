"""A lease from its owner's point of view, without a store."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Lease:
    """A lease that stays ours; the next reclaims raise `refusals` instead."""

    held: bool = True
    epoch: int = 1
    reclaims: int = 0
    refusals: list[Exception] = field(default_factory=list)

    def holds(self, epoch: int) -> bool:
        return self.held and epoch == self.epoch

    async def reclaim(self) -> int:
        self.reclaims += 1
        if self.refusals:
            raise self.refusals.pop(0)
        self.epoch += 1
        return self.epoch
