"""Metrics and health checks of a process over HTTP, and the set-up of telemetry."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from structlog.testing import capture_logs

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.broker.observability import (
    LIVE,
    METRICS,
    READY,
    STARTED,
    Observability,
    attributes,
    log_unknown_variables,
)
from sharebroker_server.routing.router import ROLES
from sharebroker_server.telemetry.metrics import gauge


@pytest.fixture
async def observability() -> AsyncIterator[Observability]:
    observability = Observability()
    await observability.start("127.0.0.1:0")
    yield observability
    await observability.stop()


async def get(observability: Observability, path: str) -> tuple[int, str]:
    def request() -> tuple[int, str]:
        try:
            with urlopen(f"http://{observability.address}{path}", timeout=10) as response:
                return response.status, response.read().decode()
        except HTTPError as error:
            with error:
                return error.code, error.read().decode()

    return await asyncio.to_thread(request)


async def test_process_is_ready_once_it_has_started(observability: Observability) -> None:
    assert [(await get(observability, path))[0] for path in (STARTED, READY, LIVE)] == [503, 503, 200]
    observability.health.started()
    assert [(await get(observability, path))[0] for path in (STARTED, READY, LIVE)] == [200, 200, 200]


async def test_stopping_process_is_not_ready(observability: Observability) -> None:
    observability.health.started()
    observability.health.stop()
    assert (await get(observability, READY))[0] == 503


async def test_added_metrics_are_served(observability: Observability) -> None:
    observability.metrics.add(lambda: [gauge("sharebroker_test", "A test.", [((), 7)])])
    status, text = await get(observability, METRICS)
    assert status == 200
    assert "sharebroker_test 7" in text


async def test_address_in_use_is_an_invalid_config(observability: Observability) -> None:
    assert observability.address is not None
    with pytest.raises(KafkaError) as caught:
        await Observability().start(observability.address)
    assert caught.value.code is ErrorCode.INVALID_CONFIG


def test_unknown_telemetry_variables_are_logged() -> None:
    others = (
        "OTEL_RESOURCE_ATTRIBUTES_POD_NAME",
        "OTEL_SERVICE_NAME",
        "OTEL_LOG_LEVEL",
        "OTEL_PROPAGATORS",
        "OTEL_PYTHON_LOG_CORRELATION",
        "OTEL_INSTRUMENTATION_HTTP_ENABLED",
        "OTEL_EXPORTER_JAEGER_ENDPOINT",
        "OTEL_EXPORTER_OTLP_LOGS_TIMEOUT",
        "OTEL_BLRP_SCHEDULE_DELAY",
        "PATH",
    )
    with capture_logs() as lines:
        log_unknown_variables(dict.fromkeys(["OTEL_NOSUCH", "OTEL_EXPORTER_OTLP_ENDPIONT", *others], "1"))
    assert [(line["event"], line["names"]) for line in lines] == [
        (
            "ignoring unknown OTEL_* environment variables",
            ["OTEL_EXPORTER_OTLP_ENDPIONT (did you mean OTEL_EXPORTER_OTLP_ENDPOINT?)", "OTEL_NOSUCH"],
        )
    ]
    with capture_logs() as lines:
        log_unknown_variables(dict.fromkeys(others, "1"))
    assert not lines


def test_service_name_lists_the_roles_unless_the_broker_has_all() -> None:
    assert attributes(frozenset(ROLES), "here:1")["service.name"] == "sharebroker"
    some = attributes(frozenset({"share-coordinator", "gateway"}), "here:1")
    assert some["service.name"] == "sharebroker-gateway-share-coordinator"
    assert some["service.instance.id"] == "here:1"
