"""Asks the transaction coordinator whether a transaction goes on, before it is written to (KIP-890)."""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple, Protocol

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.transaction_coordinator.v1 import transaction_coordinator_pb2 as pb
from sharebroker_server.catalog.metadata_cache import MetadataCache
from sharebroker_server.cluster.router import Router
from sharebroker_server.leases import names

TIMEOUT: Final = 3.0
"""Seconds for all attempts; who asked tries again."""

PAUSE: Final = 0.05

_LATER: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
"""Asking again may help."""

ADDING: Final = 2
"""The transaction.version of producers that leave it to leaders to add partitions."""


class Claim(NamedTuple):
    """That something belongs to a transaction; with `adds` its partition becomes part of that now."""

    transactional_id: str
    adds: bool


class TransactionCheck(Protocol):
    """Where claims are checked."""

    async def confirm(self, claim: Claim, producer_id: int, producer_epoch: int, partition: str) -> int:
        """The coordinator's epoch, when the transaction goes on and the partition, named by its resource, is
        part of it; -1 where nobody was asked.

        Raises INVALID_PRODUCER_ID_MAPPING, INVALID_PRODUCER_EPOCH, TRANSACTION_ABORTABLE; later it may be so
        after CONCURRENT_TRANSACTIONS (a claim that adds) or KAFKA_STORAGE_ERROR.
        """


class CoordinatorCheck:
    """Asks the coordinator of the transactional id, unless the cluster's settings say not to."""

    def __init__(self, router: Router, catalog: MetadataCache) -> None:
        self._router = router
        self._catalog = catalog

    async def confirm(self, claim: Claim, producer_id: int, producer_epoch: int, partition: str) -> int:
        """See TransactionCheck."""
        if not claim.adds and not self._catalog.broker.transaction_partition_verification_enable:
            return -1
        topic_id, index = names.topic_partition(partition)
        request = pb.AddPartitionsToTxnRequest(
            transactional_id=claim.transactional_id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            verify_only=not claim.adds,
            transaction_version=ADDING,
            partitions=[delivery.TopicPartition(topic_id=topic_id, partition=index)],
        )
        try:
            answer = await self._asked(request)
        except KafkaError as error:
            raise _translated(error, claim) from error
        (added,) = answer.partitions
        if added.error_code:
            raise KafkaError(ErrorCode(added.error_code), "The partition is not part of the transaction.")
        return answer.coordinator_epoch

    async def _asked(self, request: pb.AddPartitionsToTxnRequest) -> pb.AddPartitionsToTxnResponse:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + TIMEOUT
        while True:
            try:
                stub = await self._router.transaction_coordinator(request.transactional_id)
                return await stub.AddPartitionsToTxn(request, timeout=TIMEOUT)
            except KafkaError as error:
                if error.code not in _LATER or loop.time() >= deadline:
                    raise
                self._router.forget_transaction_coordinator(request.transactional_id)
            await asyncio.sleep(PAUSE)


def _translated(error: KafkaError, claim: Claim) -> KafkaError:
    """In the codes that a producer may see as the outcome of an append."""
    if error.code is ErrorCode.PRODUCER_FENCED:
        return KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, error.message)
    if error.code in _LATER and not (claim.adds and error.code is ErrorCode.CONCURRENT_TRANSACTIONS):
        return KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"The transaction could not be verified: {error.message}",
            retry_after=PAUSE,
        )
    return error
