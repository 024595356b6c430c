"""A web service that publishes: FastAPI with one producer for all requests.

    pip install fastapi uvicorn
    sharebroker topics create orders -c message.dedup.window.ms=600000
    uvicorn web_producer:app

A client repeats a request with the same `Idempotency-Key` until it has a response. The order is stored once.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Body, FastAPI, Header, HTTPException, Request, status

from sharebroker import KafkaError, ProducerConfig
from sharebroker.aio import Producer

TOPIC = "orders"


@asynccontextmanager
async def lifespan(service: FastAPI) -> AsyncIterator[None]:
    """Connects when the service starts, and sends what is queued when it stops."""
    address = os.environ.get("SHAREBROKER_SERVER", "127.0.0.1:9090")
    async with Producer(address, ProducerConfig(delivery_timeout_ms=10_000)) as producer:
        service.state.producer = producer
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/orders", status_code=status.HTTP_202_ACCEPTED)
async def accept(
    request: Request,
    customer: Annotated[str, Body()],
    item: Annotated[str, Body()],
    idempotency_key: Annotated[str | None, Header(min_length=1, max_length=128)] = None,
) -> dict[str, Any]:
    """Responds when the order is stored. Orders of a customer keep their sequence."""
    producer: Producer = request.app.state.producer
    try:
        stored = await producer.publish(
            TOPIC, item.encode(), key=customer.encode(), message_id=idempotency_key
        )
    except KafkaError as error:
        code = status.HTTP_503_SERVICE_UNAVAILABLE if error.retriable else status.HTTP_400_BAD_REQUEST
        raise HTTPException(code, error.message) from error
    return {"partition": stored.partition, "offset": stored.offset}
