"""Tracing of a broker: resource attributes and unknown variables."""

from __future__ import annotations

from structlog.testing import capture_logs

from sharebroker_server.broker.tracing_setup import attributes, log_unknown_variables
from sharebroker_server.routing.router import ROLES


def test_unknown_variables_are_logged_unless_they_are_of_other_tools() -> None:
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
