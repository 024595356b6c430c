"""Settings of all tests; the fixtures are in `tests/testkit`."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

pytest_plugins = ("tests.testkit.plugin",)

# On a busy machine examples are slow: no test may fail because of its duration.
_base = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
# Every run has the same examples: a test that fails once in many runs depends on the machine (decision 0076).
settings.register_profile("sharebroker", parent=_base, derandomize=True, max_examples=50)
# For `make test-fast`: a sixth of the examples.
settings.register_profile("fast", parent=_base, derandomize=True, max_examples=8)
# For `make properties` and `make fuzz`: new examples in every run.
settings.register_profile("random", parent=_base, print_blob=True)
settings.register_profile("fuzz", parent=_base, max_examples=20_000)
settings.load_profile("sharebroker")
