"""The replicas of a role after autoscaling is enabled, as the chart reads them from a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from tests.deploy.api_server import cluster
from tests.deploy.chart import HELM, NO_HELM, OPEN, Manifest, manifests, template

pytestmark = pytest.mark.skipif(HELM is None, reason=NO_HELM)

SCALING: Final = "--set=roles.gateway.autoscaling.enabled=true"
OUTSIDE: Final = "--set=kafka.external.type=NodePort"
HELD: Final = {"sharebroker/replicas": "held"}


def gateways(kind: str, replicas: int, **metadata: Any) -> Manifest:
    """Returns the gateways as they run."""
    named = {"name": "sharebroker-gateway", **metadata}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": named, "spec": {"replicas": replicas}}


SCALER: Final[Manifest] = {
    "apiVersion": "autoscaling/v2",
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "sharebroker-gateway"},
}


def rendered(*arguments: str) -> Manifest:
    """Returns the gateways as rendered."""
    done = template("--show-only=templates/workloads.yaml", *arguments)
    assert done.returncode == 0, done.stderr
    (found,) = (one for one in manifests(done.stdout) if one["metadata"]["name"] == "sharebroker-gateway")
    return found


@pytest.mark.parametrize(
    ("objects", "replicas"),
    [
        pytest.param([], None, id="new release: count omitted"),
        pytest.param([gateways("Deployment", 3)], 3, id="enabled later: current count"),
        pytest.param(
            [gateways("Deployment", 5, annotations=HELD), SCALER], 5, id="after that upgrade: current count"
        ),
        pytest.param([gateways("Deployment", 5), SCALER], None, id="always enabled: count omitted"),
    ],
)
def test_autoscaler_takes_over_the_replica_count(
    tmp_path: Path, objects: list[Manifest], replicas: int | None
) -> None:
    with cluster(tmp_path, *objects) as kubeconfig:
        found = rendered(OPEN, SCALING, "--dry-run=server", kubeconfig)
    assert found["spec"].get("replicas") == replicas
    assert ("sharebroker/replicas" in found["metadata"]["annotations"]) == bool(replicas)


def test_numbered_gateways_keep_their_replica_count(tmp_path: Path) -> None:
    with cluster(tmp_path, gateways("StatefulSet", 4)) as kubeconfig:
        assert rendered(SCALING, OUTSIDE, "--dry-run=server", kubeconfig)["spec"]["replicas"] == 4


def test_without_autoscaling_values_set_the_replica_count(tmp_path: Path) -> None:
    with cluster(tmp_path, gateways("Deployment", 5, annotations=HELD), SCALER) as kubeconfig:
        found = rendered(OPEN, "--set=roles.gateway.replicas=3", "--dry-run=server", kubeconfig)
    assert found["spec"]["replicas"] == 3
    assert "sharebroker/replicas" not in found["metadata"]["annotations"]
