"""The table of served APIs: versions are known, and any request can be refused in each of them."""

from __future__ import annotations

import pkgutil
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.features import SUPPORTED
from sharebroker_server.gateway.kafka import api as handlers
from sharebroker_server.gateway.kafka.api_table import APIS
from sharebroker_server.gateway.kafka.call import Api, Call, ClientConnection
from sharebroker_server.kafka_wire.frames import codec_of, read_response, response_frame
from sharebroker_server.kafka_wire.schema import api_schema
from tests.support.examples import scaled
from tests.support.kafka_messages import requests
from tests.testkit.tables import each
from tests.unit.gateway.kafka.harness import Harness

SORTED = sorted(APIS.values(), key=lambda api: api.key)
_FAILED = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The server failed.")


@pytest.fixture
async def calls() -> Any:
    """Makes calls of requests."""
    harness = Harness()
    view = await harness.listener.brokers.view()
    yield lambda version, request: Call(
        harness.listener, ClientConnection("kafka-0", "/host"), "client", version, request, view
    )
    await harness.gateway.stop()
    harness.server.close()


def test_every_handler_module_is_in_the_table() -> None:
    modules = {f"{handlers.__name__}.{module.name}" for module in pkgutil.iter_modules(handlers.__path__)}
    assert {api.handle.__module__ for api in SORTED} == modules
    assert len(APIS) == len(modules)
    assert list(APIS) == sorted(APIS)


@each("api", SORTED)
def test_versions_are_known(api: Api) -> None:
    first, last = api_schema(api.key).versions
    assert first <= api.versions[0] <= api.versions[1] <= last
    assert api.feature is None or api.feature in SUPPORTED


@pytest.mark.parametrize("api", SORTED, ids=lambda api: api_schema(api.key).name)
@given(data=st.data())
@settings(max_examples=scaled(6), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_request_can_be_refused(api: Api, calls: Any, data: st.DataObject) -> None:
    for version in range(api.versions[0], api.versions[1] + 1):
        request = data.draw(requests(api.key, version))
        codec = codec_of(api.key, version)
        frame = bytes(response_frame(7, codec, api.refuse(calls(version, request), _FAILED)))
        number, _ = read_response(frame[4:], codec)
        assert number == 7
