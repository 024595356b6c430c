"""What a lease holder tells of itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from sharebroker_server.leases.holder import LeaseHolder
from sharebroker_server.leases.names import kind_of
from sharebroker_server.telemetry.metrics import Family, counter, gauge


def lease_families(holder: LeaseHolder) -> Iterable[Family]:
    """See Collector."""
    held = Counter(kind_of(resource) for resource in holder.held())
    missing = Counter(kind_of(resource) for resource in holder.missing())
    yield gauge(
        "sharebroker_leases_held",
        "Leases of shards and partitions that this process holds.",
        ((("kind", kind), held[kind]) for kind in sorted({*held, *holder.taken})),
    )
    yield gauge(
        "sharebroker_leases_missing",
        "Leases that this process should hold and does not.",
        ((("kind", kind), missing[kind]) for kind in sorted({*missing, *holder.taken})),
    )
    yield counter(
        "sharebroker_lease_changes_total",
        "Leases that came to this process and that left it.",
        (
            (("kind", kind, "change", change), count)
            for change, counts in (("acquired", holder.taken), ("lost", holder.given))
            for kind, count in sorted(counts.items())
        ),
    )
    yield gauge(
        "sharebroker_members",
        "Processes of the cluster that are announced, by role.",
        (
            (("role", role), count)
            for role, count in sorted(Counter(r for m in holder.members for r in m.roles).items())
        ),
    )
