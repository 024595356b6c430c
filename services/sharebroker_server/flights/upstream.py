"""The topic of a run in a Kafka cluster: it is created there, and flights are produced to it directly."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Iterable
from typing import Any, Final

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError as ClientError

from sharebroker import ErrorCode, KafkaError
from sharebroker_protocol.records.partitioner import partition_of
from sharebroker_server.flights.cluster import FlightPublisher, unpublished
from sharebroker_server.flights.core.flight import Flight

_COPIES: Final = 1
_LINGER_MS: Final = 20


class NoUpstreamError(Exception):
    """The Kafka cluster cannot be used; the message names the reason."""


async def create_topic(bootstrap: str, topic: str, partitions: int) -> None:
    """Creates the topic in the cluster, with one copy, unless it exists. Raises NoUpstreamError."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        await admin.start()
        response = await admin.create_topics([NewTopic(topic, partitions, _COPIES)])
    except (ClientError, ValueError) as error:
        raise NoUpstreamError(f"Kafka at {bootstrap} cannot be used: {error}") from error
    finally:
        await admin.close()
    for _, code, *message in response.topic_errors:
        if code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise NoUpstreamError(f"Kafka at {bootstrap} did not create the topic {topic}: {message or code}")


class UpstreamPublisher(FlightPublisher):
    """Publishes to the cluster itself, as its other producers do; `server` is its bootstrap address."""

    async def publish(self, flights: Iterable[Flight]) -> None:
        """Publishes the missing flights; returns when all replicas have them. Raises KafkaError."""
        producer = AIOKafkaProducer(
            bootstrap_servers=self._server, enable_idempotence=True, linger_ms=_LINGER_MS
        )
        failures: list[BaseException] = []

        def keep_failure(sent: Future[Any]) -> None:
            if not sent.cancelled() and (failure := sent.exception()) is not None:
                failures.append(failure)

        try:
            await producer.start()
            for flight in unpublished(flights, self._ends):
                partition = partition_of(flight.key, len(self._ends))
                sent = await producer.send(self._topic, flight.payload(), key=flight.key, partition=partition)
                sent.add_done_callback(keep_failure)
                self.published += 1
            await producer.flush()
        except ClientError as error:
            failures.append(error)
        finally:
            await producer.stop()
        if failures:
            message = f"Kafka at {self._server} did not store all flights: {failures[0]}"
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, message) from failures[0]
