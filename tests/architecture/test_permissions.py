"""The table of permissions in docs/grpc.md is that of the code."""

from __future__ import annotations

import re

from sharebroker_server.security.permissions import PERMISSIONS
from tests.architecture.sources import ROOT

_ROW = re.compile(r"^\| `([\w.]+/\w+)` \| (.+) \|$", re.MULTILINE)


def test_documented_permissions_match_the_code() -> None:
    documented = dict(_ROW.findall((ROOT / "docs" / "grpc.md").read_text()))
    assert documented == {
        method.rpartition(".")[2]: str(permission)
        for method, permission in PERMISSIONS.items()
        if not permission.internal and not method.startswith("/grpc.")
    }
