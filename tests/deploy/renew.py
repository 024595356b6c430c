"""`python -m tests.deploy.renew`: renders the cases anew and the README's table; look at the difference."""

from __future__ import annotations

from tests.deploy.chart import CASES, GOLDEN, golden, rendered
from tests.deploy.values_table import README, with_table


def main() -> None:
    """Write them."""
    for old in GOLDEN.glob("*.yaml"):
        old.unlink()
    for case in CASES:
        golden(case).write_text(rendered(case))
    README.write_text(with_table(README.read_text()))


if __name__ == "__main__":
    main()
