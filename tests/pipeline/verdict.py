"""The expected contents of a run's tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.pipeline.queue import READERS, WORKERS, Published

Tables = Mapping[str, list[dict[str, Any]]]


def judge(
    tables: Tables, published: Published, before: Mapping[str, float], after: Mapping[str, float]
) -> list[str]:
    """Returns the differences; `before` and `after` are micro-batches that were done at the kill, and at
    the end.
    """
    (totals,) = tables["totals"]
    rejected = {row["reason"]: row["records"] for row in tables["rejected"]}
    groups = {row["group"]: row for row in tables["health"]}
    deliveries = {row["delivery_count"]: row["records"] for row in tables["deliveries"]}
    checks = {
        f"bronze has {totals['bronze']:,} of {published.records:,} records": totals["bronze"]
        == published.records,
        f"bronze has offsets twice ({totals['offsets']:,} different)": totals["offsets"] == totals["bronze"],
        f"silver rejected {rejected}, not {published.rejected}": rejected == published.rejected,
        "silver lost rows": totals["silver"] + totals["rejected"] == totals["bronze"],
        f"state and logs differ: {tables['differences']}": totals["differences"] == 0,
        f"state of {sorted(groups)} alone was looked at": groups.keys() == {READERS, WORKERS},
        "nothing was delivered again": deliveries.get(2, 0) > 0,
        "the poison list is empty": tables["poison_total"][0]["records"] > 0,
        "the readers have not finished": groups[READERS]["passed"] == published.records,
        "the run did not go on from its checkpoint": all(
            after.get(name) == at for name, at in before.items()
        ),
    }
    return [text for text, holds in checks.items() if not holds]
