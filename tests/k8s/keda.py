"""A real KEDA operator scales workers by the lag of a share group: up, and down to none."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from time import monotonic
from typing import Final

from tests.k8s.images import KEDA, KEDA_METRICS
from tests.k8s.kubectl import Kubectl
from tests.k8s.parts import KEDA as VERSION
from tests.k8s.parts import module_folder
from tests.k8s.release import Release
from tests.support.client import connected
from tests.testkit.waiting import eventually

_RECORDS: Final = 200
_MOST: Final = 3
_TIME: Final = 180.0


def install(kubectl: Kubectl) -> None:
    """Installs the released KEDA, with images built here."""
    config = module_folder("github.com/kedacore/keda/v2", VERSION) / "config" / "minimal"
    text = kubectl("kustomize", str(config))
    text = re.sub(r"image: .*/keda:main", f"image: {KEDA}", text)
    text = re.sub(r"image: .*/keda-metrics-apiserver:main", f"image: {KEDA_METRICS}", text)
    text = text.replace("imagePullPolicy: Always", "imagePullPolicy: IfNotPresent")
    kubectl("apply", "--server-side", "-f", "-", given=text)
    api = "apiservice/v1beta1.external.metrics.k8s.io"
    kubectl("wait", "--for=condition=Available", api, "--timeout=180s")


async def scaled_by_lag(release: Release) -> str:
    """Returns the result in one line. Raises AssertionError on failure."""
    kubectl = release.node.kubectl
    await asyncio.to_thread(install, kubectl)
    async with connected(release.address()) as client:
        topic, topic_id = await client.create(4)
        group = await client.group()
        worker = (Path(__file__).parent / "worker.yaml").read_text()
        kubectl("apply", "-f", "-", given=worker.replace("TOPIC", topic).replace("GROUP", group))
        names = {"name": "worker", "target": {"name": "worker"}, "group": group, "topic": topic}
        numbers = {"lagPerWorker": 20, "maxReplicas": _MOST, "pollingSeconds": 3, "cooldownSeconds": 5}
        await asyncio.to_thread(release.change, f"keda.scaledObjects={json.dumps([names | numbers])}")
        begun = monotonic()
        await client.publish(topic, map(str, range(_RECORDS)))
        await _replicas(kubectl, 1, _MOST)
        first = monotonic() - begun
        await _replicas(kubectl, _MOST, _MOST)
        most = monotonic() - begun
        await _replicas(kubectl, 0, 0)
        none = monotonic() - begun
        finished = [len(await client.finished(group, topic_id, partition)) for partition in range(4)]
    kubectl("delete", "deployment", "worker", "--wait=true")
    assert sum(finished) == _RECORDS, f"{finished} of {_RECORDS} are finished"
    await asyncio.to_thread(release.change, "keda.scaledObjects=[]")
    return f"a worker after {first:.0f} s, {_MOST} after {most:.0f} s, none any more after {none:.0f} s"


async def _replicas(kubectl: Kubectl, least: int, most: int) -> None:
    """Waits until the number of requested workers is in this range."""

    async def wanted() -> bool:
        await asyncio.sleep(1)
        (worker,) = await asyncio.to_thread(kubectl.get, "deployment", "worker")
        return least <= int(worker["spec"]["replicas"]) <= most

    await eventually(wanted, _TIME)
