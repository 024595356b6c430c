"""Alerts and dashboards use existing metrics, and each alert has a section in the runbook."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from sharebroker_protocol.tracing import names
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


def test_every_queried_metric_exists() -> None:
    code = "\n".join(path.read_text() for path in python("services", "libs"))
    whole = set(re.findall(r'"((?:sharebroker|process)_[a-z_]+)"', code))
    # Some names are built from tables: sharebroker_share_group_{name}_total of "records_acquired".
    made = [
        re.compile(re.sub(r"\{\w+\}", "(?P<name>[a-z_]+)", name))
        for name in re.findall(r'f"((?:sharebroker|process)_\w*\{\w+\}\w*)"', code)
    ]

    def exists(name: str) -> bool:
        matches = (pattern.fullmatch(name) for pattern in made)
        return name in whole or any(match and f'"{match["name"]}"' in code for match in matches)

    queried = {name for expression in expressions() for name in _NAME.findall(expression)}
    queried = {_OF_HISTOGRAMS.sub("", name) for name in queried}
    assert len(queried) > 30
    assert not {name for name in queried if not exists(name)}


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_dashboards_show_only_the_selected_releases(path: Path) -> None:
    """One Prometheus may scrape several; without a distinguishing label (Compose) all are selected."""
    dashboard = json.loads(path.read_text())
    variables = {one["name"]: one for one in dashboard["templating"]["list"]}
    assert {variables[name]["allValue"] for name in ("namespace", "release")} == {".*"}
    queried = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    queried += [variables[name]["query"]["query"] for name in ("group", "topic") if name in variables]
    chosen = '{namespace=~"$namespace",release=~"$release"'
    assert all(len(_NAME.findall(expression)) == expression.count(chosen) for expression in queried)


def test_alerts_select_one_release() -> None:
    for alert in ALERTS:
        for labels in re.findall(r"\b(?:by|on) \(([^)]*)\)", alert["expr"]):
            assert labels.startswith("namespace, release") or labels == "instance"


@pytest.mark.skipif(HELM is None, reason=NO_HELM)
@pytest.mark.parametrize(
    ("kind", "endpoints"), [("podMonitor", "podMetricsEndpoints"), ("serviceMonitor", "endpoints")]
)
def test_monitors_distinguish_releases(kind: str, endpoints: str) -> None:
    done = template(f"--set=monitoring.{kind}.enabled=true", "--show-only=templates/monitoring.yaml")
    monitor = next(one for one in manifests(done.stdout) if one["kind"].endswith("Monitor"))
    (endpoint,) = monitor["spec"][endpoints]
    assert endpoint["relabelings"] == [
        {"sourceLabels": ["__meta_kubernetes_pod_label_app_kubernetes_io_instance"], "targetLabel": "release"}
    ]


_SENTENCE = re.compile(r"[A-Z0-9][^.]+ [^.]+\..*(?<=\.)")
_UNITS = {
    "short": "a number",
    "s": "seconds",
    "bytes": "KiB, MiB, …",
    "Bps": "kB/s, MB/s, …",
    "percentunit": "1 is 100 %",
    "recps": "records per second",
    "reqps": "requests per second",
    "wps": "writes per second",
    "cps": "counts per second",
}
"""Grafana's units for panels, and how it shows them."""


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_dashboards_can_be_provisioned(path: Path) -> None:
    dashboard = json.loads(path.read_text())
    assert dashboard["uid"] == f"sharebroker-{path.stem}"
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in dashboard["panels"]:
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
        assert panel["title"]


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_every_panel_has_a_description(path: Path) -> None:
    dashboard = json.loads(path.read_text())
    described = {panel["title"]: panel.get("description", "") for panel in dashboard["panels"]}
    described[dashboard["title"]] = dashboard.get("description", "")
    assert not [title for title, text in described.items() if not _SENTENCE.fullmatch(text)]
    assert not [title for title, text in described.items() if text.rstrip(".").lower() == title.lower()]


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_panels_fill_rows_without_an_overlap(path: Path) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(path.read_text())["panels"]:
        place = panel["gridPos"]
        cells = set(
            itertools.product(
                range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])
            )
        )
        assert not cells & taken, panel["title"]
        taken |= cells
    rows = {y for _, y in taken}
    assert rows == set(range(len(rows)))


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_panels_use_units_of_grafana(path: Path) -> None:
    """Grafana shows `rps` as reads per second, and an unknown unit as text behind the number."""
    panels = json.loads(path.read_text())["panels"]
    units = {panel["title"]: panel["fieldConfig"]["defaults"]["unit"] for panel in panels}
    assert not {title: unit for title, unit in units.items() if unit not in _UNITS}


def _links() -> Iterator[tuple[dict[str, Any], dict[str, Any], str]]:
    """Yields dashboards, panels, and the targets of their series' links."""
    for path in DASHBOARDS:
        dashboard = json.loads(path.read_text())
        for panel in dashboard["panels"]:
            for link in panel["fieldConfig"]["defaults"].get("links", ()):
                yield dashboard, panel, link["url"]


def test_series_of_groups_lead_to_their_traces() -> None:
    """By labels of the series, to tags of the spans, in a data source that the dashboard queries."""
    found = list(_links())
    assert len(found) > 5
    spans = {names.GROUP, names.TOPIC}
    for dashboard, panel, url in found:
        path, _, panes = url.partition("&panes=")
        assert path == "/explore?schemaVersion=1"
        (query,) = json.loads(panes)["traces"]["queries"]
        assert query["datasource"] == {"type": "jaeger", "uid": "${jaeger}"}
        (variable,) = [one for one in dashboard["templating"]["list"] if one["name"] == "jaeger"]
        assert (variable["type"], variable["query"]) == ("datasource", "jaeger")
        tags = dict(tag.split("=") for tag in query["tags"].split())
        assert set(tags) <= spans
        labels = [label for tag in tags.values() for label in re.findall(r"labels\.(\w+)", tag)]
        assert len(labels) == len(tags)
        queried = panel["targets"][0]["expr"]
        assert all(label in queried or "by (" not in queried for label in labels)


def test_grafana_has_data_sources_for_metrics_and_traces() -> None:
    text = (ROOT / "deploy" / "compose" / "grafana" / "datasources" / "sharebroker.yml").read_text()
    prometheus, jaeger = yaml.safe_load(text)["datasources"]
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    for source in (prometheus, jaeger):
        assert source["url"].removeprefix("http://").partition(":")[0] in services
    leads = jaeger["jsonData"]["tracesToMetrics"]
    assert leads["datasourceUid"] == prometheus["uid"]
    assert {tag["key"] for tag in leads["tags"]} == {names.GROUP, names.TOPIC}


def test_every_alert_has_instructions() -> None:
    sections = re.findall(r"^## (\w+)$", (CHART / "files" / "RUNBOOK.md").read_text(), re.MULTILINE)
    assert sections == [alert["alert"] for alert in ALERTS]
    assert all(alert["labels"]["severity"] in ("critical", "warning") for alert in ALERTS)
    assert all(alert["annotations"]["summary"] for alert in ALERTS)
    for alert in ALERTS:  # as docker compose's Prometheus shows them
        path, _, anchor = alert["annotations"]["runbook"].partition("#")
        assert (ROOT / path, anchor) == (CHART / "files" / "RUNBOOK.md", alert["alert"].lower())


def test_alerts_lead_to_the_runbook() -> None:
    (production,) = (case for case in CASES if case.stem == "production")
    (rule,) = (one for one in manifests(golden(production).read_text()) if one["kind"] == "PrometheusRule")
    links = [alert["annotations"]["runbook_url"] for alert in rule["spec"]["groups"][0]["rules"]]
    base = "https://runbooks.example.com/sharebroker"
    assert links == [f"{base}#{alert['alert'].lower()}" for alert in ALERTS]


def test_alerts_without_a_runbook_url_describe_how_to_read_it() -> None:
    (workers,) = (case for case in CASES if case.stem == "workers")
    made = manifests(golden(workers).read_text())
    (rule,) = (one for one in made if one["kind"] == "PrometheusRule")
    (runbook,) = (one for one in made if one["metadata"]["name"] == "queue-runbook")
    text = (CHART / "files" / "RUNBOOK.md").read_text()
    for alert in rule["spec"]["groups"][0]["rules"]:
        name = alert["alert"]
        command = f"kubectl -n queues get configmap queue-runbook -o jsonpath='{{.data.{name}}}'"
        assert alert["annotations"]["runbook"] == command
        assert f"## {name}\n\n{runbook['data'][name]}" in text
    assert set(runbook["data"]) == {alert["alert"] for alert in ALERTS}


def test_a_service_monitor_finds_every_process_once() -> None:
    (workers,) = (case for case in CASES if case.stem == "workers")
    made = manifests(golden(workers).read_text())
    (monitor,) = (one["spec"] for one in made if one["kind"] == "ServiceMonitor")
    (wanted,) = monitor["selector"]["matchExpressions"]
    services = [
        one
        for one in made
        if one["kind"] == "Service"
        and one["metadata"]["labels"].items() >= monitor["selector"]["matchLabels"].items()
        and one["metadata"]["labels"].get(wanted["key"]) in wanted["values"]
    ]
    for workload in (one for one in made if one["kind"] == "Deployment"):
        template = workload["spec"]["template"]
        labels = template["metadata"]["labels"].items()
        (service,) = (one["spec"] for one in services if labels >= one["spec"]["selector"].items())
        (port,) = service["ports"]
        assert port["name"] == monitor["endpoints"][0]["port"]
        ports = {one["name"]: one["containerPort"] for one in template["spec"]["containers"][0]["ports"]}
        assert port["port"] == ports[port["targetPort"]]
        assert service["publishNotReadyAddresses"]


@pytest.mark.skipif(HELM is None, reason=NO_HELM)
def test_grafana_receives_the_dashboards_unchanged() -> None:
    done = template("--set=monitoring.dashboards.enabled=true", "--show-only=templates/monitoring.yaml")
    (made,) = manifests(done.stdout)
    assert made["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert {name: json.loads(text) for name, text in made["data"].items()} == {
        path.name: json.loads(path.read_text()) for path in DASHBOARDS
    }
