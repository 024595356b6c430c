"""A server for tests is independent of the settings of other servers."""

from __future__ import annotations

import inspect
from typing import get_type_hints

from sharebroker.testing.server import IGNORED_VARIABLES
from sharebroker_server.broker.commands.serve import serve


def test_variables_of_serve_are_ignored() -> None:
    hints = get_type_hints(serve, include_extras=True)
    options = [option for hint in hints.values() for option in getattr(hint, "__metadata__", ())]
    assert inspect.signature(serve).parameters.keys() <= hints.keys()
    assert {option.envvar for option in options if option.envvar} == IGNORED_VARIABLES
