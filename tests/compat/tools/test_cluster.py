"""kafka-cluster, kafka-features, kafka-broker-api-versions."""

from __future__ import annotations

import re

from sharebroker_server.gateway.kafka.api.api_versions import first_listed
from sharebroker_server.gateway.kafka.api_table import APIS
from tests.compat.tools.conftest import Tools


def test_cluster_id_is_printed(tools: Tools) -> None:
    (line,) = tools("kafka-cluster", "cluster-id").lines
    assert re.fullmatch(r"Cluster ID: [\w-]{22}", line)


def test_features_are_printed(tools: Tools) -> None:
    shown = [re.split(r"\s{2,}", line) for line in tools("kafka-features", "describe").lines]
    assert [(name, *levels[:3]) for name, *levels in shown] == [
        (
            "Feature: share.version",
            "SupportedMinVersion: 0",
            "SupportedMaxVersion: 1",
            "FinalizedVersionLevel: 1",
        ),
        (
            "Feature: transaction.version",
            "SupportedMinVersion: 0",
            "SupportedMaxVersion: 2",
            "FinalizedVersionLevel: 2",
        ),
    ]
    upgraded = tools("kafka-features", "upgrade", "--feature", "share.version=1")
    assert upgraded.lines == ["share.version was upgraded to 1."]
    rejected = tools.attempt("kafka-features", "upgrade", "--feature", "share.version=9")
    assert rejected.code == 1
    assert "Invalid update version 9 for feature share.version." in rejected.out + rejected.err


def test_printed_api_versions_equal_the_served_ones(tools: Tools) -> None:
    head, *lines = tools("kafka-broker-api-versions").lines
    assert re.fullmatch(r"127\.0\.0\.1:\d+ \(id: \d+ rack: null isFenced: false\) -> \(", head)
    found = re.findall(r"\t\w+\((\d+)\): (\d+)(?: to (\d+))? \[usable: (\d+)\]", "\n".join(lines))
    shown = {int(key): (int(first), int(last or first)) for key, first, last, _ in found}
    assert shown == {api.key: (first_listed(api), api.versions[1]) for api in APIS.values()}
    assert all(usable == (last or first) for _, first, last, usable in found)
