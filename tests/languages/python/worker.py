"""A work-queue consumer on bare stubs: worker.py ADDRESS GROUP TOPIC COUNT.

Acknowledges each record separately and waits for its durable result. The program ends when COUNT records or
more are finished, or on SIGINT or SIGTERM. Before it ends, it receives the results of its acknowledgements;
the server releases the other records. The client of the package `sharebroker` does the same in three lines.
"""

from __future__ import annotations

import base64
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from queue import SimpleQueue

import grpc

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.gateway.v1 import share_pb2 as share
from sharebroker_protocol.gateway.v1.share_pb2_grpc import ShareServiceStub

CREDIT = 10


def decide(text: str, deliveries: int) -> delivery.AcknowledgeType.ValueType:
    """Accept a record; reject "bad" ones, and release "later" ones at their first delivery."""
    if text.startswith("bad"):
        return delivery.ACKNOWLEDGE_TYPE_REJECT
    if text.startswith("later") and deliveries == 1:
        return delivery.ACKNOWLEDGE_TYPE_RELEASE
    return delivery.ACKNOWLEDGE_TYPE_ACCEPT


def work(stub: ShareServiceStub, group: str, topic: str, count: int) -> None:
    """Consume a topic until `count` records are finished or a signal arrives."""
    requests: SimpleQueue[share.ConsumeRequest | None] = SimpleQueue()
    outgoing: Iterator[share.ConsumeRequest] = iter(requests.get, None)
    stopping = False

    def stop(*_: object) -> None:
        nonlocal stopping
        stopping = True
        requests.put(None)

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    subscribe = share.ConsumeRequest.Subscribe(
        group_id=group, topics=[topic], decode=True, as_text=True, client_id="python"
    )
    requests.put(share.ConsumeRequest(subscribe=subscribe, credit=CREDIT))
    final: dict[int, bool] = {}  # by the id of an acknowledgement: whether the record is then finished
    finished = 0
    for response in stub.Consume(outgoing, metadata=authorization()):
        for result in response.results:
            if result.error_code:
                raise SystemExit(f"not applied: {result.error_message}")
            finished += final[result.id]
        if finished >= count:
            stop()
        if response.records and not stopping:
            requests.put(answered(response.records, final))


def answered(records: Iterable[share.ShareRecord], final: dict[int, bool]) -> share.ConsumeRequest:
    """Returns a verdict for each record, and credit for as many more."""
    request = share.ConsumeRequest()
    for record in records:
        verdict = decide(record.text, record.delivery_count)
        final[len(final) + 1] = verdict != delivery.ACKNOWLEDGE_TYPE_RELEASE
        line = f"{record.partition} {record.offset} {record.delivery_count} {record.text}"
        sys.stdout.write(f"{line}\n")
        request.credit += 1
        request.acknowledgements.add(
            id=len(final),
            topic_id=record.topic_id,
            partition=record.partition,
            first_offset=record.offset,
            lock_token=record.lock_token,
            type=verdict,
        )
    return request


def connect(address: str) -> grpc.Channel:
    """Returns a channel, over TLS if SHAREBROKER_CA names the file of the server's authority."""
    authority = os.environ.get("SHAREBROKER_CA")
    if authority is None:
        return grpc.insecure_channel(address)
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(Path(authority).read_bytes()))


def authorization() -> tuple[tuple[str, str], ...]:
    """Returns metadata with the access token or the user of the environment; TLS protects it."""
    token, user = os.environ.get("SHAREBROKER_TOKEN_FILE"), os.environ.get("SHAREBROKER_USER")
    if token is None and user is None:
        return ()
    if "SHAREBROKER_CA" not in os.environ:
        raise SystemExit("a user or a token needs SHAREBROKER_CA")
    if token is not None:
        return (("authorization", f"Bearer {Path(token).read_text().strip()}"),)
    password = Path(os.environ["SHAREBROKER_PASSWORD_FILE"]).read_text().partition("\n")[0]
    return (("authorization", f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"),)


def main() -> None:
    """Runs the command line."""
    if len(sys.argv) != 5 or not sys.argv[4].isdecimal():
        raise SystemExit("worker.py ADDRESS GROUP TOPIC COUNT")
    _, address, group, topic, count = sys.argv
    with connect(address) as channel:
        try:
            work(ShareServiceStub(channel), group, topic, int(count))
        except grpc.RpcError as failure:
            raise SystemExit(f"{failure.code().name}: {failure.details()}") from None


if __name__ == "__main__":
    main()
