"""`make k8s`: a real Kubernetes on this machine, our chart on it, and every operation on a release."""

from __future__ import annotations

import asyncio
import signal
from time import monotonic
from typing import Annotated

import structlog
import typer

from tests.deploy.chart import HELM, NO_HELM
from tests.k8s.cluster import cluster
from tests.k8s.images import archive, spark_archive
from tests.k8s.machine import lacking
from tests.k8s.parts import Missing, needed
from tests.k8s.pipeline import PIPELINE
from tests.k8s.trial import trial


def main(
    only: Annotated[
        str, typer.Option(help="Only the steps whose names contain this; several by commas.")
    ] = "",
    alone: Annotated[bool, typer.Option(help="Only the cluster and the images, until Ctrl-C.")] = False,
) -> None:
    """Tests the chart on a real cluster; exit code 1 after a failure, 2 if no cluster can be started."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # everything is removed then, too
    wants = lacking()
    absent = [part.name for part in needed()]
    if not wants and absent:
        wants = [f"{', '.join(absent)}: make k8s-parts"]
    if HELM is None:
        wants.append(NO_HELM)
    if wants:
        typer.echo("\n".join(["no trial on Kubernetes here:", *wants]), err=True)
        raise typer.Exit(2)
    try:
        raise typer.Exit(_run(monotonic(), only, alone=alone))
    except Missing as failure:
        typer.echo(str(failure), err=True)
        raise typer.Exit(2) from None


def _run(begun: float, only: str, *, alone: bool) -> int:
    def log(text: str) -> None:
        typer.echo(f"{monotonic() - begun:7.1f} {text}")

    log("images ...")
    images = [archive(), *([spark_archive()] if PIPELINE.lower() in only.lower() else [])]
    log("cluster ...")
    with cluster(images) as node:
        log(f"the node is ready; kubectl --kubeconfig={node.kubectl.kubeconfig}")
        if alone:
            signal.pause()
        findings = asyncio.run(trial(node, log, only))
        log("taking everything down")
    typer.echo("\n".join(["", *findings.lines]))
    typer.echo(f"verdict: {'FAILED: ' + ', '.join(findings.broken) if findings.broken else 'all is well'}")
    return bool(findings.broken)


if __name__ == "__main__":
    typer.run(main)
