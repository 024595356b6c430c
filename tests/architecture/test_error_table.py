"""Documentation, proto and code agree on every error."""

from __future__ import annotations

import re

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.status.v1 import status_pb2
from tests.architecture.sources import ROOT

_ROW = re.compile(r"^\| (-?\d+) \| ([A-Z_]+) \| ([A-Z_]+) \| (yes|no) \| (.+) \|$", re.MULTILINE)


def test_readme_documents_every_error() -> None:
    rows = _ROW.findall((ROOT / "protos" / "README.md").read_text())
    documented = {int(code): (name, status, retriable == "yes") for code, name, status, retriable, _ in rows}
    assert documented == {int(code): (code.name, code.status, code.retriable) for code in ErrorCode}


def test_every_code_has_a_description() -> None:
    assert all(code.status and code.text for code in ErrorCode)


def test_proto_has_the_same_codes() -> None:
    codes = {name.removeprefix("ERROR_CODE_"): number for name, number in status_pb2.ErrorCode.items()}
    assert codes == {code.name: int(code) for code in ErrorCode}
