"""Durable facts of a shard of the transaction coordinator. Each replaces the last one with the same key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sharebroker_server.group_coordinator.core.transactions.model import Transaction

Key = str | None

IDS: Final = None
"""The key of the fact about producer ids."""


@dataclass(frozen=True, slots=True)
class TransactionRecord:
    """A transactional id as it is from here on; None when it is forgotten."""

    transactional_id: str
    transaction: Transaction | None


@dataclass(frozen=True, slots=True)
class ProducerIdsRecord:
    """How many producer ids of this shard may have been given out."""

    end: int


Record = TransactionRecord | ProducerIdsRecord
