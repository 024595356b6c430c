"""`python -m tests.deploy.renew`: regenerates the schema's server parts, comments, cases and the README's
table.
"""

from __future__ import annotations

from tests.deploy.chart import CASES, GOLDEN, golden, rendered
from tests.deploy.settings_schema import ORDER, SCHEMA, order, with_settings
from tests.deploy.values_table import README, VALUES, with_comments, with_table


def main() -> None:
    """Writes the files; review the difference."""
    SCHEMA.write_text(with_settings(SCHEMA.read_text()))
    ORDER.write_text(order())
    VALUES.write_text(with_comments(VALUES.read_text()))
    for old in GOLDEN.glob("*.yaml"):
        old.unlink()
    for case in CASES:
        golden(case).write_text(rendered(case))
    README.write_text(with_table(README.read_text()))


if __name__ == "__main__":
    main()
