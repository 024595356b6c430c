"""Records of a shard of the transaction coordinator. Each replaces the last one with the same key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sharebroker_server.group_coordinator.core.transactions.model import Transaction

Key = str | None

IDS: Final = None
"""The key of the record about producer ids."""


@dataclass(frozen=True, slots=True)
class TransactionRecord:
    """The new state of a transactional id; None deletes it."""

    transactional_id: str
    transaction: Transaction | None


@dataclass(frozen=True, slots=True)
class ProducerIdsRecord:
    """The end of the current block: ids with lower ordinals may have been assigned."""

    end: int


Record = TransactionRecord | ProducerIdsRecord
