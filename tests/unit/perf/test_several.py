"""The comparison of several processes to one: both servers differ in their number of processes only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.perf import several
from tests.perf.compare import SIDES
from tests.perf.kafka.programs import QUICK
from tests.perf.servers import Serving
from tests.perf.several import GRPC, Plan


def test_servers_differ_in_their_processes_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[tuple[str, Sequence[str]]] = []

    @contextmanager
    def serving(folder: Path, fsync: str, *, options: Sequence[str]) -> Iterator[Serving]:
        started.append((fsync, options))
        yield Serving("here:1", "here:2", 1)

    monkeypatch.setattr(several, "serving", serving)
    with ExitStack() as stack:
        for side in SIDES:
            driven = stack.enter_context(Plan(4, QUICK, 10, GRPC)._server(side, tmp_path / side))
            assert driven.work.records == 5
    (fsync, one), (again, four) = started
    assert fsync == again
    assert ["4" if word == "1" else word for word in one] == list(four)
