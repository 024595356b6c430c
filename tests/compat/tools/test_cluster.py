"""kafka-cluster, kafka-features, kafka-broker-api-versions."""

from __future__ import annotations

import re

from sharebroker_server.catalog.features import SUPPORTED
from sharebroker_server.gateway.kafka.api.api_versions import first_listed
from sharebroker_server.gateway.kafka.api_table import APIS
from tests.compat.tools.conftest import Tools


def test_cluster_id_is_printed(tools: Tools) -> None:
    (line,) = tools("kafka-cluster", "cluster-id").lines
    assert re.fullmatch(r"Cluster ID: [\w-]{22}", line)


def feature_lines(tools: Tools) -> dict[str, list[str]]:
    """Returns what kafka-features prints, by feature."""
    shown = [re.split(r"\s{2,}", line) for line in tools("kafka-features", "describe").lines]
    return {name.removeprefix("Feature: "): levels for name, *levels in shown}


def test_features_are_printed(tools: Tools) -> None:
    shown = feature_lines(tools)
    assert {name: levels[:3] for name, levels in shown.items()} == {
        name: [
            f"SupportedMinVersion: {lowest}",
            f"SupportedMaxVersion: {highest}",
            f"FinalizedVersionLevel: {highest}",
        ]
        for name, (lowest, highest) in SUPPORTED.items()
    }


def test_features_are_upgraded_and_downgraded(tools: Tools) -> None:
    before = feature_lines(tools)["transaction.version"]
    lowered = tools("kafka-features", "downgrade", "--feature", "transaction.version=1")
    assert lowered.lines == ["transaction.version was downgraded to 1."]
    after = feature_lines(tools)["transaction.version"]
    assert after[2] == "FinalizedVersionLevel: 1"
    assert int(after[3].removeprefix("Epoch: ")) == int(before[3].removeprefix("Epoch: ")) + 1
    tools("kafka-features", "downgrade", "--unsafe", "--feature", "transaction.version=0")
    raised = tools("kafka-features", "upgrade", "--feature", "transaction.version=2")
    assert raised.lines == ["transaction.version was upgraded to 2."]
    for change, number in (("downgrade", 1), ("upgrade", 2)):  # dead letters need level 2
        changed = tools("kafka-features", change, "--feature", f"share.version={number}")
        assert changed.lines == [f"share.version was {change}d to {number}."]
        assert feature_lines(tools)["share.version"][2] == f"FinalizedVersionLevel: {number}"
    for feature in ("share.version=9", "transaction.version=1"):
        rejected = tools.attempt("kafka-features", "upgrade", "--feature", feature)
        assert rejected.code == 1
        name, _, level = feature.partition("=")
        assert f"Invalid update version {level} for feature {name}." in rejected.out + rejected.err


NEWEST_OF_TOOLS = {18: 4, 28: 5, 42: 2}
"""The newest version of ApiVersions, TxnOffsetCommit and DeleteGroups in Kafka 4.3.1; 4.4 has one more."""


def test_printed_api_versions_equal_the_served_ones(tools: Tools) -> None:
    head, *lines = tools("kafka-broker-api-versions").lines
    assert re.fullmatch(r"127\.0\.0\.1:\d+ \(id: \d+ rack: null isFenced: false\) -> \(", head)
    found = re.findall(r"\t\w+\((\d+)\): (\d+)(?: to (\d+))? \[usable: (\d+)\]", "\n".join(lines))
    shown = {int(key): (int(first), int(last or first)) for key, first, last, _ in found}
    assert shown == {api.key: (first_listed(api), api.versions[1]) for api in APIS.values()}
    usable = {int(key): int(version) for key, _, _, version in found}
    newest = {key: last for key, (_, last) in shown.items()}
    assert usable == newest | NEWEST_OF_TOOLS
