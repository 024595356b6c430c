"""The release under trial: its addresses, its leaders, and its remaining objects."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sharebroker_protocol.gateway.v1 import admin_pb2 as pb
from sharebroker_server.redis_link.keys import Keys
from tests.chaos.deployment import SETTINGS
from tests.k8s.cluster import Node
from tests.k8s.keys import NAMESPACE
from tests.k8s.network import NODE
from tests.support.client import TIMEOUT, connected

NAME: Final = "sharebroker"
_HERE: Final = Path(__file__).parent
_VALKEY: Final = 999
"""The user that the chart's Valkey runs as."""

_COMES_AND_GOES: Final = ("event", "configmap/kube-root-ca.crt", "serviceaccount/default", "service/judge")


@dataclass(frozen=True)
class Release:
    """A release of our chart on a node; see tests.chaos.ports.Deployed."""

    node: Node
    name: str = NAME

    @property
    def fullname(self) -> str:
        """Returns the chart's name prefix of objects."""
        return self.name if NAME in self.name else f"{self.name}-{NAME}"

    @property
    def cluster_id(self) -> str:
        """Returns the cluster id; the chart derives it from namespace and release."""
        return f"{NAMESPACE}_{self.fullname}"

    def prepare(self) -> None:
        """Creates the objects that the installation requires."""
        volume = self.node.folder / "volume"
        volume.mkdir()
        os.chown(volume, _VALKEY, _VALKEY)
        text = (_HERE / "surroundings.yaml").read_text().replace("VOLUME", str(volume))
        self.node.kubectl("apply", "-f", "-", given=text)

    def install(self, *more: str) -> None:
        """Runs `helm install --wait`."""
        settings = [f"--set=settings.{_escaped(one)}" for one in SETTINGS]
        self.node.kubectl.release("install", self.name, f"--values={_HERE}/values.yaml", *settings, *more)

    def test(self) -> None:
        """Runs `helm test`. Raises Failed."""
        self.node.kubectl.helm("test", self.name, "--timeout=3m")

    def uninstall(self) -> None:
        """Runs `helm uninstall`."""
        self.node.kubectl.helm("uninstall", self.name, "--wait", "--timeout=3m")

    def change(self, *values: str) -> None:
        """Runs `helm upgrade --wait` with some values changed, NAME=VALUE."""
        words = [f"--set-json={one}" for one in values]
        self.node.kubectl.release("upgrade", self.name, "--reuse-values", *words)

    def pods(self, role: str) -> dict[str, str]:
        """Returns names and addresses of a role's pods."""
        found = self.node.kubectl.get("pods", f"-l=app.kubernetes.io/component={role}")
        return {pod["metadata"]["name"]: pod["status"].get("podIP", "") for pod in found}

    def left(self) -> set[str]:
        """Returns all objects in the namespace except permanent ones."""
        kubectl = self.node.kubectl
        kinds = kubectl("api-resources", "--verbs=list", "--namespaced", "-o=name").split()
        selected = ",".join(kind for kind in kinds if "metrics" not in kind)
        found = kubectl("get", selected, "--ignore-not-found", "-o=name").split()
        return {
            one for one in found if not one.startswith(_COMES_AND_GOES) and "events.k8s.io" not in one
        } - {one for one in found if "/judge" in one}

    async def leaders(self, topic: str = "") -> dict[str, int]:
        """Returns how many partitions each address leads."""
        async with connected(self.address()) as client:
            request = pb.MetadataRequest(topics=[topic] if topic else [])
            response = await client.admin.Metadata(request, timeout=TIMEOUT)
        addresses = {node.node_id: node.address.rpartition(":")[0] for node in response.nodes}
        led: dict[str, int] = {}
        for one in response.topics:
            for part in one.partitions:
                where = addresses.get(part.leader_id, "")
                led[where] = led.get(where, 0) + 1
        return led

    def address(self, first: int = 0) -> str:
        """Returns the address of the gRPC listener, by a port of the node."""
        (service,) = self.node.kubectl.get("service", self.fullname)
        (port,) = (one["nodePort"] for one in service["spec"]["ports"] if one["name"] == "grpc")
        return f"{NODE}:{port}"

    @property
    def kafka(self) -> str:
        """Returns the bootstrap address of Kafka clients."""
        return f"{NODE}:31090,{NODE}:31091"

    @property
    def upstream(self) -> str:
        """Returns "": the records are in Redis."""
        return ""

    @property
    def redis_url(self) -> str:
        """Returns the Redis that holds the logs."""
        return f"redis://{NODE}:30379"

    @property
    def keys(self) -> Keys:
        """Returns the names of its Redis keys."""
        return Keys.of_cluster(self.cluster_id)


def _escaped(assignment: str) -> str:
    name, _, value = assignment.partition("=")
    return f"{name.replace('.', chr(92) + '.')}={value}"
