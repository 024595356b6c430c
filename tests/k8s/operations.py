"""Operations on a release under load; each is observed and judged like a fault of `make chaos`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from tests.k8s.release import NAME, Release
from tests.testkit.waiting import eventually

LEADER: Final = "share-partition-leader"
_TIME: Final = 120.0


async def _nothing(release: Release) -> None:
    """There is nothing to heal."""


@dataclass(frozen=True)
class Operation:
    """An operation on a release; see tests.chaos.ports.Event. `check` raises AssertionError if it failed."""

    kind: str
    act: Callable[[Release], Awaitable[None]]
    check: Callable[[Release], Awaitable[None]] = _nothing
    role: str = ""
    stalls: bool = False
    outlasts_work: bool = False

    def __str__(self) -> str:
        return self.kind

    def lasts(self, lease: float) -> float:
        """It is over when it returns."""
        return 0.0

    async def strike(self, on: Release) -> None:
        """Runs it, and waits until Kubernetes reports that it is done."""
        await self.act(on)

    async def heal(self, on: Release) -> None:
        """Checks its result."""
        await self.check(on)


def change(*values: str) -> Callable[[Release], Awaitable[None]]:
    """Returns a `helm upgrade` with other values."""

    async def act(release: Release) -> None:
        await asyncio.to_thread(release.change, *values)

    return act


def delete_pod(role: str) -> Operation:
    """A pod is deleted; another replaces it, and other leaders serve its partitions meanwhile."""
    gone: list[str] = []

    async def act(release: Release) -> None:
        pods = await asyncio.to_thread(release.pods, role)
        name, address = sorted(pods.items())[0]
        if role == LEADER:
            assert (await release.leaders()).get(address), f"{name} leads nothing"
        await asyncio.to_thread(release.node.kubectl, "delete", "pod", name, "--wait=false")
        gone.append(address)
        await _replaced(release, role, set(pods))

    async def check(release: Release) -> None:
        await eventually(lambda: _leads_not(release, gone[0]), _TIME)

    return Operation(f"delete a pod of {role}", act, check)


async def _replaced(release: Release, role: str, before: set[str]) -> None:
    """Returns whether as many pods are ready as before, for any kind of workload."""
    kubectl = release.node.kubectl

    def whole() -> bool:
        pods = kubectl.get("pods", f"-l=app.kubernetes.io/component={role}")
        going = [pod for pod in pods if "deletionTimestamp" in pod["metadata"]]
        ready = [
            pod
            for pod in pods
            for condition in pod["status"].get("conditions", ())
            if condition["type"] == "Ready" and condition["status"] == "True"
        ]
        return not going and len(ready) == len(before)

    await eventually(lambda: _slowly(whole), _TIME)


async def _slowly(condition: Callable[[], bool]) -> bool:
    await asyncio.sleep(1)
    return await asyncio.to_thread(condition)


async def _leads_not(release: Release, address: str) -> bool:
    await asyncio.sleep(1)
    return not (await release.leaders()).get(address)


def scale(role: str, replicas: int) -> Operation:
    """More pods or fewer; partitions follow."""

    async def check(release: Release) -> None:
        async def shared() -> bool:
            await asyncio.sleep(1)
            pods = set((await asyncio.to_thread(release.pods, role)).values())
            led = {address for address, count in (await release.leaders()).items() if count}
            return len(pods) == replicas and (role != LEADER or led == pods)

        await eventually(shared, _TIME)

    return Operation(f"scale {role} to {replicas}", change(f"roles.{role}.replicas={replicas}"), check)


def everyday() -> list[Operation]:
    """Returns the operations of a release's life, in this order."""
    return [
        Operation("helm upgrade, every pod replaced", change('env={"SHAREBROKER_TRIAL":"second"}')),
        delete_pod(LEADER),
        delete_pod("gateway"),
        delete_pod("group-coordinator"),
        delete_pod("share-coordinator"),
        scale(LEADER, 3),
        scale(LEADER, 1),
        scale(LEADER, 2),
        scale("gateway", 3),
        scale("gateway", 2),
        Operation("helm rollback", _rollback),
    ]


async def _rollback(release: Release) -> None:
    await asyncio.to_thread(release.node.kubectl.helm, "rollback", NAME, "1", "--wait", "--timeout=5m")
