"""Tables of cases that one test checks: an item of pytest's costs two milliseconds, most cases cost less."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any


def each(names: str, cases: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Calls the test for each case, as `pytest.mark.parametrize` does, but within one test.

    The first case that fails ends the test; its arguments are shown below the failure. Fixtures are shared by
    all cases. A case has one value per name, or is the value if there is one name.
    """
    named = [name.strip() for name in names.split(",")]
    rows = [dict(zip(named, case if len(named) > 1 else (case,), strict=True)) for case in cases]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def run(**fixtures: Any) -> None:
            assert rows, f"no case for {names}"
            for row in rows:
                try:
                    test(**fixtures, **row)
                except BaseException as failure:
                    failure.add_note(f"The case: {row}")
                    raise

        signature = inspect.signature(test)
        kept = [value for name, value in signature.parameters.items() if name not in named]
        setattr(run, "__signature__", signature.replace(parameters=kept))  # noqa: B010 - pytest reads it
        return run

    return decorate
