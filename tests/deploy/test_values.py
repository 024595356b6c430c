"""The chart with unusual values and names: none, long ones, and those that YAML misreads."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.chart import (
    CASES,
    CHART,
    HELM,
    KUBERNETES,
    NO_HELM,
    Manifest,
    golden,
    helm,
    manifests,
    pods,
    template,
)

pytestmark = pytest.mark.skipif(HELM is None, reason=NO_HELM)
DEFAULTS = next(golden(case) for case in CASES if case.stem == "defaults")


def made(*arguments: str, release: str = "sharebroker") -> list[Manifest]:
    """Returns what the chart renders."""
    done = template(*arguments, release=release)
    assert done.returncode == 0, done.stderr
    return manifests(done.stdout)


def without_empty_ones(values: dict[str, Any]) -> dict[str, Any]:
    """Returns null for each empty value, as where a user commented out all nested lines."""
    return {
        name: without_empty_ones(value) if isinstance(value, dict) and value else None
        for name, value in values.items()
        if value in ("", [], {}) or isinstance(value, dict)
    }


def test_null_value_equals_an_empty_one(tmp_path: Path) -> None:
    values = without_empty_ones(yaml.safe_load((CHART / "values.yaml").read_text()))
    values["roles"] = {}  # a role's null would remove the values of roleDefaults
    assert values["settings"] is None
    assert values["roleDefaults"]["settings"] is None
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    assert made(f"--values={file}") == manifests(DEFAULTS.read_text())


def cluster_ids(objects: list[Manifest]) -> Iterator[str]:
    for name, pod in pods(objects):
        if name.endswith("gateway"):
            (option,) = (one for one in pod["containers"][0]["args"] if one.startswith("--set=cluster.id="))
            yield option.removeprefix("--set=cluster.id=")


def test_releases_in_a_namespace_with_a_long_name_do_not_share_a_cluster() -> None:
    namespace = f"--namespace={'n' * 63}"
    ids = [next(cluster_ids(made(namespace, release=release))) for release in ("one", "two")]
    assert len(set(ids)) == 2
    assert all(len(one) == 64 for one in ids)


def test_an_image_can_be_named_by_its_digest() -> None:
    digest = f"sha256:{'a' * 64}"
    objects = made(
        f"--set=image.repository=registry.example.com:5000/sharebroker,image.digest={digest}",
        f"--set=image.tag=0.2,pipeline.enabled=true,pipeline.image.digest={digest}",
    )
    images = {container["image"] for _, pod in pods(objects) for container in pod["containers"]}
    ours = {image for image in images if not image.startswith("valkey")}
    assert ours == {f"registry.example.com:5000/sharebroker@{digest}", f"sharebroker-spark@{digest}"}


def test_version_with_build_metadata_makes_valid_labels(tmp_path: Path) -> None:
    chart = shutil.copytree(CHART, tmp_path / "sharebroker")
    facts = yaml.safe_load((chart / "Chart.yaml").read_text())
    facts |= {"version": "0.1.0+a1", "appVersion": "0.1.0+a1"}
    (chart / "Chart.yaml").write_text(yaml.safe_dump(facts))
    done = helm(
        "template", "sharebroker", str(chart), f"--kube-version={KUBERNETES}", "--set=image.tag=0.1.0"
    )
    for one in manifests(done.stdout):
        assert one["metadata"]["labels"]["helm.sh/chart"] == "sharebroker-0.1.0_a1"
        assert one["metadata"]["labels"]["app.kubernetes.io/version"] == "0.1.0_a1"


def test_release_with_a_dot_makes_valid_service_names() -> None:
    for one in made(release="queues.v2"):
        assert one["metadata"]["name"].startswith("queues-v2-sharebroker")


def strings(value: Any, name: str) -> Iterator[object]:
    """Yields the values under a name, at any depth."""
    if isinstance(value, dict):
        if name in value:
            yield value[name]
        for inner in value.values():
            yield from strings(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner, name)


def test_names_that_yaml_misreads_stay_strings() -> None:
    """A release called `on`, a Secret called `1`."""
    objects = made(
        "--set=redis.builtIn.enabled=false",
        "--set-string=redis.urlSecret.name=1,redis.urlSecret.key=on,redis.ca.secret=2",
        "--set-string=auth.admin.secret=6,tls.secret=3,roleDefaults.priorityClassName=4,serviceAccount.name=5",
        release="on",
    )
    assert {one["metadata"]["labels"]["app.kubernetes.io/instance"] for one in objects} == {"on"}
    read = [{"name": "1", "key": "on"}, {"name": "6", "key": "password"}]
    assert all(one in read for one in strings(objects, "secretKeyRef"))
    assert set(strings(objects, "secretName")) == {"2", "3", "6"}
    assert set(strings(objects, "priorityClassName")) == {"4"}
    assert set(strings(objects, "serviceAccountName")) == {"5"}


@pytest.mark.parametrize(
    ("values", "meant"),
    [
        ("roleDefaults", {"test", "gateway", "group-coordinator", "share-coordinator"}),
        ("redis.builtIn", {"valkey"}),
        ("pipeline", {"pipeline"}),
    ],
)
def test_every_pod_accepts_scheduling_constraints(values: str, meant: set[str]) -> None:
    """This includes the pod of `helm test`: with several kinds of nodes, its image may run on few."""
    objects = made(
        f"--set={values}.nodeSelector.pool=queues,{values}.tolerations[0].key=queues",
        f"--set={values}.priorityClassName=high,pipeline.enabled=true",
        "--set=roles.share-partition-leader.nodeSelector.pool=others",
    )
    constrained = set()
    for _, pod in pods(objects):
        if pod.get("nodeSelector") == {"pool": "queues"}:
            assert pod["tolerations"] == [{"key": "queues"}]
            assert pod["priorityClassName"] == "high"
            constrained.add(pod["containers"][0]["name"])
    assert constrained == meant
