"""Values of a gateway's metrics."""

from __future__ import annotations

from sharebroker_server.gateway.metrics import gateway_families
from tests.unit.gateway.conftest import Harness


def values(harness: Harness, name: str) -> list[float]:
    """Returns the values of a metric, in the order of its labels."""
    (family,) = (
        family for family in gateway_families(harness.gateway) if family.name == f"sharebroker_{name}"
    )
    return [sample.value for sample in family.samples]
