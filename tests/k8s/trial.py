"""One trial: the operations on a release, in order, and their results."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from time import monotonic
from typing import Final

from tests.chaos.actors import Size
from tests.chaos.deployment import LEASE
from tests.chaos.report import Outcome, percentile, report
from tests.chaos.run import Chaos
from tests.k8s.autoscaling import scaled_by_cpu
from tests.k8s.cluster import Node
from tests.k8s.encrypted import encrypted
from tests.k8s.keda import scaled_by_lag
from tests.k8s.kubectl import Failed
from tests.k8s.neighbours import releases_are_isolated
from tests.k8s.operations import everyday
from tests.k8s.parts import Missing, has_keda, has_metrics_server
from tests.k8s.pipeline import PIPELINE, topic_is_processed
from tests.k8s.protected import protected
from tests.k8s.readiness import Readiness
from tests.k8s.release import Release
from tests.testkit.waiting import until

_SIZE: Final = Size(partitions=6, grpc=6, librdkafka=3, java=0)
_SAMPLES: Final = 10
_TROUBLE: Final = (AssertionError, Failed, Missing, subprocess.SubprocessError, OSError)
Log = Callable[[str], None]


@dataclass
class Findings:
    """The results, step by step; `broken` names the failed steps, `only` those to run."""

    log: Log
    only: str = ""
    broken: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    async def step(self, name: str, work: Callable[[], Awaitable[str]]) -> bool:
        """Runs a step and prints its result; returns whether it succeeded. `helm` always runs."""
        selected = any(part.strip().lower() in name.lower() for part in self.only.split(","))
        if not selected and not name.startswith("helm"):
            return True
        self.log(f"{name} ...")
        begun = monotonic()
        try:
            result = await work()
        except _TROUBLE as failure:
            self.broken.append(name)
            result = f"FAILED: {failure}"
        self.lines.append(f"{name}: {result} ({monotonic() - begun:.0f} s)")
        self.log(self.lines[-1])
        return name not in self.broken


async def trial(node: Node, log: Log, only: str = "") -> Findings:
    """Runs every step that this machine supports, or those with a name in `only` (parts, separated by
    commas).
    """
    release, findings = Release(node), Findings(log, only)
    await asyncio.to_thread(release.prepare)
    before = await asyncio.to_thread(release.left)
    readiness = Readiness(release)
    try:
        if await findings.step("helm install, until ready", lambda: _install(release)):
            await findings.step("helm test", lambda: _helm_test(release))
            await findings.step("an operator's day under load", lambda: _day(release, log))
            if has_keda():
                await findings.step("KEDA", lambda: scaled_by_lag(release))
            else:
                findings.lines.append("KEDA: skipped, it is not built (make k8s-parts)")
            await findings.step("two releases, one Redis", lambda: releases_are_isolated(release))
            if has_metrics_server():
                await findings.step("autoscaling by CPU", lambda: scaled_by_cpu(release))
            else:
                findings.lines.append(
                    "autoscaling by CPU: skipped, metrics-server is not built (make k8s-parts)"
                )
            if PIPELINE.lower() in only.lower():
                await findings.step(PIPELINE, lambda: topic_is_processed(release))
            await findings.step("start to ready", lambda: _starts(release, readiness))
        if findings.broken:
            log(await asyncio.to_thread(_state, release))
        await findings.step("helm uninstall", lambda: _uninstall(release, before))
        await findings.step("TLS, clients with certificates", lambda: asyncio.to_thread(encrypted, release))
        await findings.step("users, ACLs and TLS", lambda: asyncio.to_thread(protected, release))
    finally:
        node.kubectl.abandon()
        readiness.stop()
    return findings


async def _install(release: Release) -> str:
    await asyncio.to_thread(release.install)
    return "every pod is ready, in a namespace for restricted pods alone"


async def _helm_test(release: Release) -> str:
    await asyncio.to_thread(release.test)
    return "published, consumed, verified"


async def _day(release: Release, log: Log) -> str:
    outcome = await Chaos(release, LEASE, Random(1), log).run(everyday(), float("inf"), _SIZE)
    log(report(outcome))
    assert outcome.well, outcome.failure or str(outcome.violation)
    return _pauses(outcome)


def _pauses(outcome: Outcome) -> str:
    worst = max(outcome.struck, key=lambda one: one.pause)
    upgrade = max((one for one in outcome.struck if "helm" in one.kind), key=lambda one: one.pause)
    return (
        f"{outcome.sent} records sent, none lost; upgrade's worst pause {upgrade.pause:.1f} s; "
        f"worst of all {worst.pause:.1f} s ({worst.kind}); quiet: {max(outcome.quiet):.1f} s"
    )


async def _starts(release: Release, readiness: Readiness) -> str:
    """Rolls every workload until there are enough samples of each role."""
    kubectl = release.node.kubectl
    workloads = [
        one for one in kubectl("get", "deployment,statefulset", "-o=name").split() if "valkey" not in one
    ]
    while not readiness.seconds or min(map(len, _roles(readiness))) < _SAMPLES:
        await asyncio.to_thread(kubectl, "rollout", "restart", *workloads)
        for one in workloads:
            await asyncio.to_thread(kubectl, "rollout", "status", one, "--timeout=5m")
    lines = (
        f"{role} {percentile(values, 50):.0f}/{percentile(values, 95):.0f}"
        for role, values in sorted(readiness.seconds.items())
        if role not in ("valkey", "test")
    )
    return f"p50/p95 in seconds, {_SAMPLES} or more of each: {', '.join(lines)}"


def _roles(readiness: Readiness) -> list[list[float]]:
    return [values for role, values in readiness.seconds.items() if role not in ("valkey", "test")]


async def _uninstall(release: Release, before: set[str]) -> str:
    await asyncio.to_thread(release.uninstall)
    remaining: set[str] = set()

    def nothing() -> bool:
        remaining.clear()
        remaining.update(release.left() - before)
        return not remaining

    try:
        await asyncio.to_thread(until, nothing, 60)
    except AssertionError:
        raise AssertionError(f"remaining objects:  {sorted(remaining)}") from None
    return "no object remains"


def _state(release: Release) -> str:
    """Returns Kubernetes' description of the release, for the diagnosis of a failure."""
    kubectl = release.node.kubectl
    lines = []
    for words in (("get", "pods", "-o=wide"), ("get", "events", "--sort-by=.lastTimestamp")):
        try:
            lines += kubectl(*words).splitlines()[-40:]
        except Failed as failure:
            lines.append(str(failure))
    return "\n".join(lines)
