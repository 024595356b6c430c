"""Finalized features."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.gateway.kafka.dispatch.features import SUPPORTED, parse_features


def test_features_default_to_their_highest_level() -> None:
    highest = {name: last for name, (_, last) in SUPPORTED.items()}
    assert parse_features(()) == highest
    assert parse_features(["share.version=0"]) == {**highest, "share.version": 0}


@pytest.mark.parametrize(
    "assignment", ["share.version", "share.version=", "share.version=-1", "share.version=99", "x=1"]
)
def test_invalid_feature_levels_are_rejected(assignment: str) -> None:
    with pytest.raises(KafkaError) as refused:
        parse_features([assignment])
    assert refused.value.code is ErrorCode.INVALID_CONFIG
