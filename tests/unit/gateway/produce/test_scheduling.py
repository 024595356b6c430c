"""The delivery times of published records: the header they become, and the errors of bad fields."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import produce_pb2 as pb
from sharebroker_protocol.records.record import DELIVER_AT_HEADER
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.config.topic import TopicConfig, resolve_topic
from sharebroker_server.gateway.produce.scheduling import add_delivery_headers

NOW = 1_700_000_000_000
HOUR = 3_600_000


def config(**settings: str) -> TopicConfig:
    return resolve_topic(
        {name.replace("_", "."): value for name, value in settings.items()}, BrokerConfig.parse([])
    )


ENABLED = config(delivery_delay_enable="true", delivery_delay_max_ms=str(HOUR))


def test_a_delivery_time_is_a_header_after_all_others() -> None:
    records = [
        pb.PublishRecord(deliver_at_ms=NOW + 5),
        pb.PublishRecord(deliver_after_ms=HOUR),
        pb.PublishRecord(),
        pb.PublishRecord(deliver_at_ms=1),
    ]
    records[0].headers.add(key=DELIVER_AT_HEADER, value=b"7")
    add_delivery_headers("t", records, ENABLED, NOW)
    assert [[header.value for header in record.headers] for record in records] == [
        [b"7", str(NOW + 5).encode()],
        [str(NOW + HOUR).encode()],
        [],
        [b"1"],
    ]


@pytest.mark.parametrize(
    ("record", "settings", "code", "field", "text"),
    [
        pytest.param(
            pb.PublishRecord(deliver_at_ms=NOW, deliver_after_ms=1),
            ENABLED,
            ErrorCode.INVALID_REQUEST,
            "deliver_after_ms",
            "set one of them",
            id="both",
        ),
        pytest.param(
            pb.PublishRecord(deliver_after_ms=-1),
            ENABLED,
            ErrorCode.INVALID_TIMESTAMP,
            "deliver_after_ms",
            "not negative",
            id="negative",
        ),
        pytest.param(
            pb.PublishRecord(deliver_at_ms=-1),
            ENABLED,
            ErrorCode.INVALID_TIMESTAMP,
            "deliver_at_ms",
            "not negative",
            id="before 1970",
        ),
        pytest.param(
            pb.PublishRecord(deliver_at_ms=NOW),
            config(),
            ErrorCode.INVALID_REQUEST,
            "deliver_at_ms",
            "delivery.delay.enable=true",
            id="not enabled",
        ),
        pytest.param(
            pb.PublishRecord(deliver_at_ms=NOW + HOUR + 1),
            ENABLED,
            ErrorCode.INVALID_TIMESTAMP,
            "deliver_at_ms",
            "3600001 ms from now; delivery.delay.max.ms permits 3600000 ms",
            id="too far away",
        ),
        pytest.param(
            pb.PublishRecord(deliver_after_ms=6000),
            config(delivery_delay_enable="true", retention_ms="5000"),
            ErrorCode.INVALID_TIMESTAMP,
            "deliver_after_ms",
            "6000 ms from now; the record would be deleted after 5000 ms",
            id="deleted before",
        ),
    ],
)
def test_a_bad_delivery_time_names_its_field(
    record: pb.PublishRecord, settings: TopicConfig, code: ErrorCode, field: str, text: str
) -> None:
    with pytest.raises(KafkaError, match=text) as caught:
        add_delivery_headers("t", [pb.PublishRecord(), record], settings, NOW)
    assert caught.value.code is code
    assert [violation.field for violation in caught.value.violations] == [f"records[1].{field}"]
