"""Alerts and dashboards: of metrics that there are, each alert with a section in the runbook."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.architecture.sources import ROOT, python
from tests.deploy.chart import CASES, CHART, HELM, NO_HELM, golden, manifests, template

DASHBOARDS = sorted((CHART / "files" / "dashboards").glob("*.json"))
(GROUP,) = yaml.safe_load((CHART / "files" / "rules.yaml").read_text())["groups"]
ALERTS = GROUP["rules"]
_NAME = re.compile(r"\b(?:sharebroker|process)_[a-z_]+")
_OF_HISTOGRAMS = re.compile(r"_(bucket|sum|count)$")


def expressions() -> Iterator[str]:
    for path in DASHBOARDS:
        for panel in json.loads(path.read_text())["panels"]:
            yield from (target["expr"] for target in panel["targets"])
    yield from (alert["expr"] for alert in ALERTS)


def test_every_metric_that_is_asked_for_exists() -> None:
    code = "\n".join(path.read_text() for path in python("services", "libs"))
    whole = set(re.findall(r'"((?:sharebroker|process)_[a-z_]+)"', code))
    # Some are made of what stands in tables: sharebroker_share_group_{name}_total of "records_acquired".
    made = [
        re.compile(re.sub(r"\{\w+\}", "(?P<name>[a-z_]+)", name))
        for name in re.findall(r'f"((?:sharebroker|process)_\w*\{\w+\}\w*)"', code)
    ]

    def exists(name: str) -> bool:
        matches = (pattern.fullmatch(name) for pattern in made)
        return name in whole or any(match and f'"{match["name"]}"' in code for match in matches)

    asked = {name for expression in expressions() for name in _NAME.findall(expression)}
    asked = {_OF_HISTOGRAMS.sub("", name) for name in asked}
    assert len(asked) > 30
    assert not {name for name in asked if not exists(name)}


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_dashboards_can_be_provisioned(path: Path) -> None:
    dashboard = json.loads(path.read_text())
    assert dashboard["uid"] == f"sharebroker-{path.stem}"
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in dashboard["panels"]:
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
        assert panel["title"]


def test_every_alert_says_what_to_do() -> None:
    sections = re.findall(r"^## (\w+)$", (ROOT / "deploy" / "RUNBOOK.md").read_text(), re.MULTILINE)
    assert sections == [alert["alert"] for alert in ALERTS]
    assert all(alert["labels"]["severity"] in ("critical", "warning") for alert in ALERTS)
    assert all(alert["annotations"]["summary"] for alert in ALERTS)


def test_alerts_lead_to_the_runbook() -> None:
    (production,) = (case for case in CASES if case.stem == "production")
    (rule,) = (one for one in manifests(golden(production).read_text()) if one["kind"] == "PrometheusRule")
    links = [alert["annotations"]["runbook_url"] for alert in rule["spec"]["groups"][0]["rules"]]
    base = "https://runbooks.example.com/sharebroker"
    assert links == [f"{base}#{alert['alert'].lower()}" for alert in ALERTS]


@pytest.mark.skipif(HELM is None, reason=NO_HELM)
def test_grafana_gets_the_dashboards_as_they_are() -> None:
    done = template("--set=monitoring.dashboards.enabled=true", "--show-only=templates/monitoring.yaml")
    (made,) = manifests(done.stdout)
    assert made["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert {name: json.loads(text) for name, text in made["data"].items()} == {
        path.name: json.loads(path.read_text()) for path in DASHBOARDS
    }
