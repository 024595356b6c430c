"""A HorizontalPodAutoscaler of the chart adds a gateway under load."""

from __future__ import annotations

import asyncio
import json
import re
from time import monotonic
from typing import Any, Final

from tests.k8s.images import METRICS_SERVER as IMAGE
from tests.k8s.kubectl import Failed, Kubectl
from tests.k8s.parts import METRICS_SERVER, METRICS_VERSION, module_folder
from tests.k8s.release import NAME, Release
from tests.support.client import Client, connected
from tests.testkit.waiting import eventually

_TIME: Final = 240.0
_SENDERS: Final = 4
_BATCH: Final = tuple(map(str, range(20)))
_LEAST, _MOST, _PERCENT = 2, 3, 60
# An idle gateway needs a fifth of it.
_BUSY: Final = {"requests": {"cpu": "100m", "memory": "96Mi"}}
_AS_BEFORE: Final = {"requests": {"cpu": "25m", "memory": "96Mi"}}


def install(kubectl: Kubectl) -> None:
    """Installs the released metrics-server, with an image built here."""
    text = kubectl("kustomize", str(module_folder(METRICS_SERVER, METRICS_VERSION) / "manifests" / "base"))
    text = re.sub(r"image: .*", f"image: {IMAGE}", text)
    text = text.replace("imagePullPolicy: Always", "imagePullPolicy: IfNotPresent")
    # The kubelet's certificate is signed by an authority of this cluster alone.
    text = re.sub(r"( *)- --metric-resolution=15s", r"\g<0>\n\1- --kubelet-insecure-tls", text)
    kubectl("apply", "-f", "-", given=text)
    kubectl("wait", "--for=condition=Available", "apiservice/v1beta1.metrics.k8s.io", "--timeout=180s")


async def scaled_by_cpu(release: Release) -> str:
    """Returns the result in one line. Raises AssertionError on failure."""
    kubectl = release.node.kubectl
    await asyncio.to_thread(install, kubectl)
    autoscaling = {"enabled": True, "minReplicas": _LEAST, "maxReplicas": _MOST, "cpuPercent": _PERCENT}
    await _set(release, autoscaling, _BUSY)
    await eventually(lambda: _wants(kubectl, _LEAST), _TIME)
    begun = monotonic()
    async with connected(release.address()) as client:
        topic, _ = await client.create(4)
        senders = [asyncio.create_task(_send(client, topic)) for _ in range(_SENDERS)]
        try:
            await eventually(lambda: _wants(kubectl, _MOST), _TIME)
        finally:
            for sender in senders:
                sender.cancel()
            await asyncio.wait(senders)
    took = monotonic() - begun
    await _set(release, {"enabled": False}, _AS_BEFORE)
    return f"a third gateway after {took:.0f} s of load"


async def _set(release: Release, autoscaling: dict[str, Any], resources: dict[str, Any]) -> None:
    values = {"autoscaling": autoscaling, "resources": resources}
    words = [f"roles.gateway.{name}={json.dumps(value)}" for name, value in values.items()]
    await asyncio.to_thread(release.change, *words)


async def _send(client: Client, topic: str) -> None:
    """Publishes without a pause."""
    while True:
        await client.publish(topic, _BATCH)


async def _wants(kubectl: Kubectl, replicas: int) -> bool:
    """Returns whether the autoscaler has read the gateways' CPU and requests this many."""
    await asyncio.sleep(2)
    try:
        (found,) = await asyncio.to_thread(kubectl.get, "horizontalpodautoscaler", f"{NAME}-gateway")
    except Failed:
        return False
    status = found["status"]
    return bool(status.get("currentMetrics")) and status.get("desiredReplicas") == replicas
