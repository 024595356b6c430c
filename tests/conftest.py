"""Settings of all tests; the fixtures are in `tests/testkit`."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

pytest_plugins = ("tests.testkit.plugin",)

# On a busy machine examples are slow: no test may fail because of its duration.
settings.register_profile("sharebroker", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fuzz", parent=settings.get_profile("sharebroker"), max_examples=20_000)
# For `make test-fast`: a quarter of the examples. `make test` runs all of them.
settings.register_profile("fast", parent=settings.get_profile("sharebroker"), max_examples=25)
settings.load_profile("sharebroker")
