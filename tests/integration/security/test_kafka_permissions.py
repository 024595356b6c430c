"""Sharebroker reports each missing permission as Kafka 4.3.1 does: the error, its level, what else is served.

The audit log has one line for each denial.

`python -m tests.security.record` records Kafka's responses.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
import structlog

from sharebroker_server.broker import roles
from sharebroker_server.broker.process import Process
from sharebroker_server.broker.settings import ServeSettings
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.kafka_wire.schema import api_schema
from sharebroker_server.security import audit
from tests.security.cases import Case, all_cases
from tests.security.observed import AUTHORIZATION, find_coordinators, observe, topic_ids
from tests.security.record import RESPONSES
from tests.support.kafka_client import connected
from tests.testkit.authorizer import TableAuthorizer
from tests.testkit.servers import free_port, running

ERRORS: Final = tuple(f": {kind}" for kind in AUTHORIZATION.values())
"""How lines of a response end that report a missing permission."""

NOT_LOGGED: Final = "topic_config_error_code"
"""The topic is created; only its configs are left out (Kafka: `logIfDenied = false`)."""


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
    ours, audited = {}, {}
    async with connected(address) as client:
        ids = await topic_ids(client)
        await find_coordinators(client)
        for case in cases:
            authorizer.allow_all()
            for denial in case.denials:
                authorizer.deny(*denial)
            audit.windows.clear()  # equal denials of earlier cases
            with structlog.testing.capture_logs() as lines:
                async with connected(address) as other:
                    ours[case.name] = await observe(other, case, ids)
            audited[case.name] = [line for line in lines if line["event"] == "authorization denied"]
    authorizer.allow_all()
    different = {
        name: {"kafka": response, "ours": ours[name]}
        for name, response in expected.items()
        if ours[name] != response
    }
    assert different == {}
    assert {case.name: misses for case in cases if (misses := _misses(case, expected, audited))} == {}


def _misses(case: Case, expected: dict[str, list[str]], audited: dict[str, Any]) -> list[str]:
    """Returns how the audit lines of a case differ from its denials.

    Each denial in the response has one line for its operation and resource. A response that only leaves
    resources out has none.
    """
    lines = audited[case.name]
    named = [(line["operation"], line["resource_type"], line["resource"]) for line in lines]
    denied = any(error.endswith(ERRORS) and NOT_LOGGED not in error for error in expected[case.name])
    operations = {(operation.name, kind.name) for operation, kind, _ in case.denials}
    callers = {
        (line["principal"], line["host"], line["listener"], line["api"], line["outcome"]) for line in lines
    }
    caller = ("User:ANONYMOUS", "127.0.0.1", "kafka", api_schema(case.key).name, "denied")
    checks = {
        "as many denials as lines": bool(lines) == denied,
        "one line for each": len(named) == len(set(named)),
        "the operation and the type": {name[:2] for name in named} <= operations,
        "the caller and the API": callers <= {caller},
    }
    return [f"{check}: {named}" for check, holds in checks.items() if not holds]
