"""The connections that the network policies allow, as Kubernetes evaluates them; all others are denied."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import pytest

from tests.deploy.chart import HELM, NO_HELM, Manifest, manifests, template
from tests.deploy.test_manifests import ARROWS, ROLES

pytestmark = pytest.mark.skipif(HELM is None, reason=NO_HELM)

CLOSED: Final = (
    "--set=networkPolicy.restrictEgress=true,networkPolicy.clients[0].podSelector.matchLabels.uses=queues",
    "--set=pipeline.enabled=true",
)
CLIENTS: Final = {"test", "pipeline"}


def labels(objects: list[Manifest]) -> dict[str, Mapping[str, str]]:
    """Returns the labels of the pods, by component."""
    found = {}
    for one in objects:
        held = one.get("spec", {}).get("template", one if one["kind"] == "Pod" else None)
        if held is not None:
            pod_labels = held["metadata"]["labels"]
            found[pod_labels["app.kubernetes.io/component"]] = pod_labels
    return found


def selects(selector: Manifest, pod: Mapping[str, str]) -> bool:
    """Returns whether the selector matches a pod."""
    return selector.get("matchLabels", {}).items() <= pod.items() and all(
        one["operator"] == "In" and pod.get(one["key"]) in one["values"]
        for one in selector.get("matchExpressions", ())
    )


def ports(
    policies: list[Manifest], way: str, pod: Mapping[str, str], other: Mapping[str, str]
) -> set[int | str]:
    """Returns the ports at which a pod may be called by another (Ingress), or may call it (Egress)."""
    mine = [one for one in policies if selects(one["podSelector"], pod) and way in one["policyTypes"]]
    assert mine, f"no policy closes {pod} for {way}"
    peers = "from" if way == "Ingress" else "to"
    return {
        port["port"]
        for policy in mine
        for rule in policy.get(way.lower(), ())
        if peers not in rule or any(selects(peer["podSelector"], other) for peer in rule[peers])
        for port in rule["ports"]
    }


def arrows(objects: list[Manifest], inner: str, outer: int) -> Iterator[tuple[str, str]]:
    """Returns which pod may call which at a port: by name in the called pod, by number for the caller."""
    policies = [one["spec"] for one in objects if one["kind"] == "NetworkPolicy"]
    pods = labels(objects)
    for caller, its in pods.items():
        for called, theirs in pods.items():
            if inner in ports(policies, "Ingress", theirs, its) and outer in ports(
                policies, "Egress", its, theirs
            ):
                yield caller, called


def test_network_policies_permit_the_diagrammed_calls() -> None:
    objects = manifests(template(*CLOSED).stdout)
    assert set(labels(objects)) == ROLES | CLIENTS | {"valkey"}
    assert set(arrows(objects, "grpc", 9090)) == ARROWS | {(client, "gateway") for client in CLIENTS}
    assert set(arrows(objects, "redis", 6379)) == {(role, "valkey") for role in ROLES}


def test_every_calling_pod_may_query_dns() -> None:
    objects = manifests(template(*CLOSED).stdout)
    policies = [one["spec"] for one in objects if one["kind"] == "NetworkPolicy"]
    resolver = {"k8s-app": "kube-dns"}
    asking = {name for name, pod in labels(objects).items() if 53 in ports(policies, "Egress", pod, resolver)}
    assert asking == ROLES | CLIENTS
