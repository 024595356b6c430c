"""Verifies with the transaction coordinator that a transaction is ongoing, before an append (KIP-890)."""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple, Protocol

from typing_extensions import override

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.transaction_coordinator.v1 import transaction_coordinator_pb2 as pb
from sharebroker_server.catalog.metadata_cache import MetadataCache
from sharebroker_server.leases import names
from sharebroker_server.routing.router import Router

TIMEOUT: Final = 3.0
"""Seconds for all attempts; then the caller retries."""

PAUSE: Final = 0.05

_RETRIABLE: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
"""Errors after which the same request may succeed."""

ADDING: Final = 2
"""The transaction.version of producers whose partitions are added by the leaders."""


class Claim(NamedTuple):
    """States that a batch belongs to a transaction; `adds`: its partition is to be added to it now."""

    transactional_id: str
    adds: bool


class TransactionCheck(Protocol):
    """Verifies claims."""

    async def confirm(self, claim: Claim, producer_id: int, producer_epoch: int, partition: str) -> int:
        """Returns the coordinator's epoch if the transaction is ongoing and includes the partition.

        `partition` is the name of its resource. Returns -1 if verification is disabled.

        Raises INVALID_PRODUCER_ID_MAPPING, INVALID_PRODUCER_EPOCH, TRANSACTION_ABORTABLE; retriable are
        CONCURRENT_TRANSACTIONS (a claim that adds) and KAFKA_STORAGE_ERROR.
        """


class CoordinatorCheck(TransactionCheck):
    """Queries the coordinator of the transactional id, unless verification is disabled."""

    def __init__(self, router: Router, catalog: MetadataCache) -> None:
        self._router = router
        self._catalog = catalog

    @override
    async def confirm(self, claim: Claim, producer_id: int, producer_epoch: int, partition: str) -> int:
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
            response = await self._add_partitions(request)
        except KafkaError as error:
            raise _translated(error, claim) from error
        (added,) = response.partitions
        if added.error_code:
            raise KafkaError(ErrorCode(added.error_code), "The partition is not part of the transaction.")
        return response.coordinator_epoch

    async def _add_partitions(self, request: pb.AddPartitionsToTxnRequest) -> pb.AddPartitionsToTxnResponse:
        deadline = Deadline(TIMEOUT)
        while True:
            try:
                stub = await self._router.transaction_coordinator(request.transactional_id)
                return await stub.AddPartitionsToTxn(request, timeout=TIMEOUT)
            except KafkaError as error:
                if error.code not in _RETRIABLE or not deadline.remaining():
                    raise
                self._router.forget_transaction_coordinator(request.transactional_id)
            await asyncio.sleep(PAUSE)


def _translated(error: KafkaError, claim: Claim) -> KafkaError:
    """Maps to the error codes that a producer accepts as the result of an append."""
    if error.code is ErrorCode.PRODUCER_FENCED:
        return KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, error.message)
    if error.code in _RETRIABLE and not (claim.adds and error.code is ErrorCode.CONCURRENT_TRANSACTIONS):
        return KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"The transaction could not be verified: {error.message}",
            retry_after=PAUSE,
        )
    return error
