"""The journals of failed records as rows."""

from __future__ import annotations

from sharebroker_protocol.gateway.v1 import admin_pb2 as gateway
from sharebroker_protocol.model import Disposition
from sharebroker_spark.core.options import StateOptions
from sharebroker_spark.failed_reading import COLUMNS, JournalKey, journals, read_failed
from tests.unit.spark.test_state_reading import client

Response = gateway.ListFailedRecordsResponse


def entry(first: int, last: int, disposition: Disposition, **values: object) -> Response.Entry:
    return Response.Entry(
        partition=1,
        first_offset=first,
        last_offset=last,
        disposition=gateway.Disposition.Name(disposition),  # type: ignore[arg-type]  # the name of the number
        delivery_count=2,
        time_ms=1500,
        **values,  # type: ignore[arg-type]  # other fields
    )


def test_partitions_of_a_topic_are_read_together() -> None:
    assert journals(client().client, StateOptions("h:1")) == [
        ("g", "audit"),
        ("g", "orders"),
        ("h", "orders"),
    ]
    assert journals(client().client, StateOptions("h:1", ("h",))) == [("h", "orders")]


def test_entries_of_all_pages_are_rows() -> None:
    pages = {
        "": Response(
            entries=[entry(4, 6, Disposition.REJECTED, member_id="m", reason="no account")],
            next_page_token="1:7",
        ),
        "1:7": Response(entries=[entry(9, 9, Disposition.EXPIRED)]),
    }

    def listed(request: gateway.ListFailedRecordsRequest) -> Response:
        assert (request.group_id, request.topic) == ("g", "orders")
        return pages[request.page_token]

    rows = list(read_failed(client(ListFailedRecords=listed).client, [JournalKey("g", "orders")]))
    assert rows == [
        ("g", "orders", 1, 4, 6, "rejected", 2, 1_500_000, "m", "no account"),
        ("g", "orders", 1, 9, 9, "expired", 2, 1_500_000, None, None),
    ]
    assert {len(row) for row in rows} == {len(COLUMNS)}
