"""Sharebroker reports each missing permission as Kafka 4.3.1 does: the error, its level, what else is served.

`python -m tests.security.record` records Kafka's responses.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from sharebroker_server.broker import roles
from sharebroker_server.broker.process import Process
from sharebroker_server.broker.settings import ServeSettings
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.gateway.context import Gateway
from tests.security.cases import all_cases
from tests.security.observed import find_coordinators, observe, topic_ids
from tests.security.record import RESPONSES
from tests.support.kafka_client import connected
from tests.testkit.authorizer import TableAuthorizer
from tests.testkit.servers import free_port, running


@pytest.fixture
def authorizer(monkeypatch: pytest.MonkeyPatch) -> TableAuthorizer:
    """The authorizer of the broker that `address` starts."""
    table = TableAuthorizer()

    def gateway(router: Any, catalog: Any, config: BrokerConfig, *_: Any) -> Gateway:
        return Gateway(router, catalog, config, table)

    monkeypatch.setattr(roles, "Gateway", gateway)
    return table


@pytest.fixture
async def address(authorizer: TableAuthorizer, tmp_path: Path) -> AsyncIterator[str]:
    """A broker in this process, whose Kafka listener asks the authorizer."""
    kafka = f"127.0.0.1:{free_port()}"
    with running("valkey") as redis:
        settings = ServeSettings(
            data=tmp_path,
            redis=redis.url,
            grpc="127.0.0.1:0",
            kafka=kafka,
            config=BrokerConfig.parse(()),
        )
        process = Process(settings)
        await process.start()
        yield kafka
        await process.stop()


async def test_missing_permissions_have_the_responses_of_kafka(
    address: str, authorizer: TableAuthorizer
) -> None:
    expected = json.loads(RESPONSES.read_text())
    cases = all_cases()
    assert [case.name for case in cases] == list(expected), "run python -m tests.security.record"
    ours = {}
    async with connected(address) as client:
        ids = await topic_ids(client)
        await find_coordinators(client)
        for case in cases:
            authorizer.allow_all()
            for denial in case.denials:
                authorizer.deny(*denial)
            async with connected(address) as other:
                ours[case.name] = await observe(other, case, ids)
    authorizer.allow_all()
    different = {
        name: {"kafka": response, "ours": ours[name]}
        for name, response in expected.items()
        if ours[name] != response
    }
    assert different == {}
