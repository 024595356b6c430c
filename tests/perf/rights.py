"""`make bench-rights`: the cost of access control, as ratios of interleaved pairs on one machine.

One server has no users. The other one has SCRAM users, the authorizer and thousands of ACLs; its clients are
no super users. gRPC's programs use TLS on both servers, because users need it there. Kafka's clients use no
encryption. In each pair both servers run. Each program drives them in slices, in the order A B B A; the first
one changes with every pair.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from tests.perf.clients import Work
from tests.perf.compare import Outcomes, Side
from tests.perf.kafka.programs import Programs, Sizes, Target
from tests.perf.listeners import Driven, amounts, available, compare
from tests.perf.servers import serving
from tests.perf.slices import SLICES, each_in_slices
from tests.perf.users import USER, add_users, client_config, options
from tests.testkit.certificates import Authority

GRPC: Final = ("publish", "each")
KAFKA: Final = ("producer", "implicit1")
HEADS: Final = ("open", "users and ACLs", "users and ACLs / open")

ACLS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Plan:
    """The amount of work of the programs, and the programs of each listener."""

    sizes: Sizes
    records: int
    acls: int
    kafka: Sequence[str]

    def pair(self, folder: Path, order: Sequence[Side]) -> Outcomes:
        """One pair: each program on both servers, in slices. Raises BenchFailed."""
        for names, tls in ((GRPC, True), (self.kafka, False)):
            with ExitStack() as stack:
                place = folder / ("grpc" if tls else "kafka")
                runs = {side: stack.enter_context(self._server(side, place / side, tls)) for side in order}
                yield from each_in_slices(runs, names, order)

    @contextmanager
    def _server(self, side: Side, folder: Path, tls: bool) -> Iterator[Driven]:
        folder.mkdir(parents=True)
        authority, secured = Authority.make(folder / "authority"), side == "after"
        chosen = ["--kafka", "127.0.0.1:0", *options(folder, authority, tls=tls, secured=secured)]
        with serving(folder, "everysec", options=chosen) as server:
            if secured:
                add_users(server.kafka, authority if tls else None, self.acls)
            config = client_config(folder) if secured else None
            programs = Programs(Target(server.kafka, (server.pid,), config), self.sizes.divided(SLICES))
            if not tls:
                programs.prepare(self.kafka)
            login = f"&user={USER}&password_file={folder / USER}" if secured else ""
            address = f"tls://{server.address}?ca={authority.file}{login}"
            yield Driven(server, programs, Work(address, "rights", records=self.records // SLICES))


def main(
    pairs: Annotated[int, typer.Option(min=1, max=50, help="Pairs; the table has their medians.")] = 5,
    acls: Annotated[int, typer.Option(min=0, max=ACLS, help="ACLs of other users.")] = ACLS,
    quick: Annotated[bool, typer.Option(help="One short pair: does it work?")] = False,
) -> None:
    """Compare a server with users and ACLs to one without; exit code 1 when something failed."""
    plan = Plan(*amounts(quick), acls, available(KAFKA))
    compare(plan, 1 if quick else pairs, HEADS, f"{acls:,} ACLs, ")


if __name__ == "__main__":
    typer.run(main)
