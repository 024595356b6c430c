"""The chart as helm renders it, and the golden files."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.architecture.sources import ROOT

CHART = ROOT / "deploy" / "helm" / "sharebroker"
CASES = sorted(Path(__file__).with_name("values").glob("*.yaml"))
GOLDEN = Path(__file__).with_name("golden")

_BUILT = ROOT / ".cache" / "bin" / "helm"
HELM = str(_BUILT) if _BUILT.exists() else shutil.which("helm")
TOOLS = ROOT / ".cache" / "deploy" / "bin" / "python"
"""The Python of the tools that check manifests."""

NO_HELM = "helm is not here: `make helm` brings it"
NO_TOOLS = "the checker of manifests is missing: `make helm` installs it"
KUBERNETES = "1.34.0"
OPEN = "--set=auth.enabled=false,tls.generate=false"
"""The option for a release without authentication and TLS."""

Manifest = dict[str, Any]

_GENERATED = re.compile(r"^(  (?:password|ca\.crt|tls\.crt|tls\.key): )\S+$", re.MULTILINE)


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs helm."""
    return subprocess.run([str(HELM), *arguments], capture_output=True, text=True, check=False, timeout=100)


def template(*arguments: str, release: str = "sharebroker") -> subprocess.CompletedProcess[str]:
    """Renders the chart; a fixed value replaces the secrets that helm generates each time."""
    done = helm(
        "template", release, str(CHART), "--namespace=queues", f"--kube-version={KUBERNETES}", *arguments
    )
    done.stdout = _GENERATED.sub(r"\1R0VORVJBVEVE", done.stdout)
    return done


def rendered(case: Path) -> str:
    """Returns the manifests for a file of values; the case's own name does not affect them."""
    done = template(f"--values={case}")
    assert done.returncode == 0, done.stderr
    return done.stdout


def golden(case: Path) -> Path:
    """Returns the golden file."""
    return GOLDEN / case.name


def manifests(text: str) -> list[Manifest]:
    """Returns the objects in it."""
    return [one for one in yaml.load_all(text, yaml.CSafeLoader) if one]


def pods(objects: list[Manifest]) -> Iterator[tuple[str, Manifest]]:
    """Yields the specification of every pod among them, with a name."""
    for one in objects:
        name = f"{one['kind']} {one['metadata']['name']}"
        if one["kind"] == "Pod":
            yield name, one["spec"]
        elif "template" in one.get("spec", {}):
            yield name, one["spec"]["template"]["spec"]
        elif "jobTemplate" in one.get("spec", {}):
            yield name, one["spec"]["jobTemplate"]["spec"]["template"]["spec"]
