"""Tables of cases that one test checks: an item of pytest's costs two milliseconds, most cases cost less."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any


def each(names: str, cases: Iterable[Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Calls the test for each case, as `pytest.mark.parametrize` does, but within one test.

    The test may be a coroutine function. The first case that fails ends the test; its arguments are shown
    below the failure. Fixtures are shared by all cases. A case has one value per name, or is the value if
    there is one name.
    """
    named = [name.strip() for name in names.split(",")]
    rows = [dict(zip(named, case if len(named) > 1 else (case,), strict=True)) for case in cases]

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(test)
        def run(**fixtures: Any) -> None:
            assert rows, f"no case for {names}"
            for row in rows:
                with _shown(row):
                    test(**fixtures, **row)

        @wraps(test)
        async def run_async(**fixtures: Any) -> None:
            assert rows, f"no case for {names}"
            for row in rows:
                with _shown(row):
                    await test(**fixtures, **row)

        checked = run_async if inspect.iscoroutinefunction(test) else run
        signature = inspect.signature(test)
        kept = [value for name, value in signature.parameters.items() if name not in named]
        setattr(checked, "__signature__", signature.replace(parameters=kept))  # noqa: B010 - pytest reads it
        return checked

    return decorate


@contextmanager
def _shown(row: Mapping[str, Any]) -> Iterator[None]:
    """Adds the case to a failure."""
    try:
        yield
    except BaseException as failure:
        failure.add_note(f"The case: {row}")
        raise
