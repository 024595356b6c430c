"""Verifies transactional appends: the first batch of a transaction waits for the transaction coordinator."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any, Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.record_log.appends import Appended
from sharebroker_server.record_log.core.batch import HEADER_SIZE, BatchHeader, header_of
from sharebroker_server.record_log.core.producers import UnverifiedError, Verified
from sharebroker_server.record_log.lifecycle import not_leader
from sharebroker_server.routing.transaction_check import Claim, TransactionCheck
from sharebroker_server.share_partition_leader.leadership.led_partition import LedPartition

_TRIES: Final = 3
"""A marker that is appended between verification and append requires another verification."""


class TransactionalAppends:
    """Appends batches of producers; a transaction is verified once per partition."""

    def __init__(self, check: TransactionCheck) -> None:
        self._check = check

    def append(self, led: LedPartition, data: bytes, claim: Claim | None) -> Coroutine[Any, Any, Appended]:
        """Appends a producer's batches; `claim` names the transaction.

        Raises KafkaError: as `PartitionLog.append` and `TransactionCheck.confirm` do.
        """
        return _append_outside(led, data) if claim is None else self._append_verified(led, data, claim)

    async def _append_verified(self, led: LedPartition, data: bytes, claim: Claim) -> Appended:
        refusal: KafkaError = UnverifiedError(ErrorCode.INVALID_TXN_STATE)
        for _ in range(_TRIES):
            verified = await self._verified(led, data, claim)
            try:
                return await led.log.append(data, verified)
            except UnverifiedError as error:
                refusal = error
        raise refusal

    async def _verified(self, led: LedPartition, data: bytes, claim: Claim) -> Verified | None:
        """Returns the verification; None if none is needed. Waiting appends continue in their order."""
        header = header_of(data) if len(data) >= HEADER_SIZE else None
        if header is None or not header.transactional or led.log.transactions.is_open(header):
            return None
        key = (header.producer_id, header.producer_epoch)
        task = led.verifications.get(key)
        if task is None:
            task = led.verifications[key] = asyncio.create_task(self._verify(led, header, claim))
            task.add_done_callback(partial(_forget, led, key))
        await asyncio.wait([task])  # not cancelled with this caller: other appends may wait for it
        if task.cancelled():
            raise not_leader(led.log.partition)
        return task.result()

    async def _verify(self, led: LedPartition, header: BatchHeader, claim: Claim) -> Verified:
        verified = Verified(led.log.log_end_offset, renews_epoch=claim.adds)
        await self._check.confirm(claim, header.producer_id, header.producer_epoch, led.log.partition)
        return verified


async def _append_outside(led: LedPartition, data: bytes) -> Appended:
    try:
        return await led.log.append(data)
    except UnverifiedError as error:
        raise KafkaError(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "The batch belongs to a transaction, the request names no transactional id.",
        ) from error


def _forget(led: LedPartition, key: tuple[int, int], task: asyncio.Task[Verified]) -> None:
    del led.verifications[key]
    if not task.cancelled():
        task.exception()  # retrieved even if the caller was cancelled
