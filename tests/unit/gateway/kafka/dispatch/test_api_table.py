"""Every API that is served: its versions are known, and any request can be refused in each of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.gateway.kafka.dispatch.api_table import served
from sharebroker_server.gateway.kafka.dispatch.call import Api, Call, Client
from sharebroker_server.gateway.kafka.dispatch.features import SUPPORTED, parse_features
from sharebroker_server.kafka_wire.frames import codec, read_response, response_frame
from sharebroker_server.kafka_wire.schema import api_schema
from tests.support.kafka_messages import requests
from tests.unit.gateway.kafka.bench import Bench

APIS = sorted(served().values(), key=lambda api: api.key)
_FAILED = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The server failed.")


@pytest.fixture
async def calls() -> Any:
    """Makes calls of requests."""
    bench = Bench()
    view = await bench.door.brokers.view()
    yield lambda version, request: Call(
        bench.door, Client("kafka-0", "/host"), "client", version, request, view
    )
    await bench.gateway.stop()
    bench.server.close()


@pytest.mark.parametrize("api", APIS, ids=lambda api: api_schema(api.key).name)
def test_versions_are_known(api: Api) -> None:
    first, last = api_schema(api.key).versions
    assert first <= api.versions[0] <= api.versions[1] <= last
    assert api.feature is None or api.feature in SUPPORTED


@pytest.mark.parametrize("api", APIS, ids=lambda api: api_schema(api.key).name)
@given(data=st.data())
@settings(max_examples=3, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_request_can_be_refused(api: Api, calls: Any, data: st.DataObject) -> None:
    for version in range(api.versions[0], api.versions[1] + 1):
        request = data.draw(requests(api.key, version))
        how = codec(api.key, version)
        frame = bytes(response_frame(7, how, api.refuse(calls(version, request), _FAILED)))
        number, _ = read_response(frame[4:], how)
        assert number == 7


def test_features_have_their_highest_level_unless_it_is_told() -> None:
    highest = {name: last for name, (_, last) in SUPPORTED.items()}
    assert parse_features(()) == highest
    assert parse_features(["share.version=0"]) == {**highest, "share.version": 0}


@pytest.mark.parametrize(
    "assignment", ["share.version", "share.version=", "share.version=-1", "share.version=99", "x=1"]
)
def test_features_that_cannot_be(assignment: str) -> None:
    with pytest.raises(KafkaError) as refused:
        parse_features([assignment])
    assert refused.value.code is ErrorCode.INVALID_CONFIG
