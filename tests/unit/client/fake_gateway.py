"""A gateway with scripted responses, for failures that a real gateway rarely shows."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, cast

import grpc
from aiokafka.record import MemoryRecords

from sharebroker_protocol.cluster.v1 import cluster_pb2
from sharebroker_protocol.delivery.v1.delivery_pb2 import (
    AcknowledgementResult,
    AcquiredRecords,
    Delivery,
    LockLost,
)
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import (
    admin_pb2,
    admin_pb2_grpc,
    produce_pb2,
    produce_pb2_grpc,
    share_pb2_grpc,
)
from sharebroker_protocol.gateway.v1.share_pb2 import (
    AcknowledgeRequest,
    AcknowledgeResponse,
    ConsumeRequest,
    ConsumeResponse,
)
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as groups
from sharebroker_protocol.rpc_status import abort
from sharebroker_protocol.transaction_coordinator.v1.transaction_coordinator_pb2 import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

Context = grpc.aio.ServicerContext[Any, Any]

TOPIC_ID = "id"
FAR = 4_000_000_000.0


class Stream:
    """The gateway's side of one Consume stream."""

    def __init__(self) -> None:
        self.first = ConsumeRequest()
        self.credit = 0
        self.assignment: list[int] = []
        self.acknowledgements: list[Any] = []
        """Acknowledgements without a result yet."""
        self.all_acknowledgements: list[Any] = []
        self.messages = 0
        self.rest_unseen = False
        self.finished = False
        self.out: asyncio.Queue[ConsumeResponse | grpc.StatusCode | KafkaError | None] = asyncio.Queue()
        self.ended = False

    def deliver(
        self, batches: bytes, first: int, last: int, token: int = 1, deadline: float = FAR, count: int = 1
    ) -> None:
        """Records first..last are acquired for the client until `deadline` (wall clock)."""
        acquired = AcquiredRecords(
            first_offset=first,
            last_offset=last,
            delivery_count=count,
            lock_token=token,
            lock_deadline_ms=round(deadline * 1000),
        )
        delivery = Delivery(topic_id=TOPIC_ID, topic="flights", record_batches=batches, acquired=[acquired])
        self.out.put_nowait(ConsumeResponse(deliveries=[delivery]))

    def lose(self, first: int, last: int, token: int = 1) -> None:
        """Reports the lock of first..last as lost."""
        lost = LockLost(topic_id=TOPIC_ID, first_offset=first, last_offset=last, lock_token=token)
        self.out.put_nowait(ConsumeResponse(lock_lost=[lost]))

    def answer(self, error: ErrorCode = ErrorCode.NONE, deadline: float = 0.0) -> None:
        """One result for every acknowledgement so far."""
        results = [
            AcknowledgementResult(
                id=a.id,
                error_code=int(error),  # type: ignore[arg-type]  # the enum's number
                lock_deadline_ms=round(deadline * 1000),
                first_offset=a.first_offset,
                last_offset=a.last_offset if a.HasField("last_offset") else a.first_offset,
            )
            for a in self.acknowledgements
        ]
        self.acknowledgements = []
        self.out.put_nowait(ConsumeResponse(results=results))

    def end(self, status: grpc.StatusCode | KafkaError | None = None) -> None:
        """Ends the stream, without an error or with one."""
        self.out.put_nowait(status)


class FakeGateway:
    """Assigns `partitions` of one topic; stores the requests."""

    def __init__(self) -> None:
        self.address = ""
        self.partitions = [0]
        self.heartbeats: list[groups.ShareGroupHeartbeatRequest] = []
        self.heartbeat_errors: list[ErrorCode] = []
        self.heartbeat_interval = 0.05
        self.streams: list[Stream] = []
        self.decisions: list[AcknowledgeRequest.Decision] = []
        self.acknowledge_errors: list[ErrorCode | KafkaError] = []
        """Errors of the next calls of Acknowledge: of each of its results, or of the call."""
        self.lost_offsets: set[int] = set()
        self.unavailable_offsets: set[int] = set()
        self.auto_answer = True
        self.topic_partitions = 2
        self.produced: list[tuple[int, bytes]] = []
        self.produce_errors: list[ErrorCode] = []
        self.produce_requests = 0
        self.producer_ids = 0
        self.producer_id_errors: list[KafkaError] = []
        """Errors of the next calls of InitProducerId."""
        self.topic_id = "first"
        """The id of the topic in responses of ProduceStream."""
        self.first_epoch = 0
        """The epoch of new producer ids."""
        self.produce_streams = 0
        self.held_partitions: set[int] = set()
        """Partitions whose responses are held back until there are none of them, and another request."""
        self.lose_responses = 0
        """The number of next ProduceStream requests that are stored without a response."""
        self.admin_error: KafkaError | None = None
        self.config_errors: list[ErrorCode] = []
        self.describe_error = ErrorCode.NONE
        self.created: list[str] = []
        """Names of the topics that were created."""
        self.configs: dict[str, str] = {}
        """Properties that were set, of any resource."""
        self.silent = False
        self.ends_streams = True
        self.refusal: grpc.StatusCode | KafkaError | None = None
        self.client_ids: dict[str, str] = {}
        """The client id of the last call, by method."""
        self._server = grpc.aio.server()
        self._assigned: list[int] | None = None

    async def __aenter__(self) -> FakeGateway:
        for register in (
            share_pb2_grpc.add_ShareServiceServicer_to_server,
            admin_pb2_grpc.add_AdminServiceServicer_to_server,
            produce_pb2_grpc.add_ProduceServiceServicer_to_server,
        ):
            register(cast("Any", _Servicer(self)), self._server)
        port = self._server.add_insecure_port("127.0.0.1:0")
        self.address = f"127.0.0.1:{port}"
        await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Stops the server without a grace period."""
        await self._server.stop(0)

    def stored(self, partition: int) -> list[bytes]:
        """The values that were published to a partition, in order."""
        values = []
        for index, data in self.produced:
            records = MemoryRecords(data)
            while index == partition and records.has_next():
                values += [record.value for record in records.next_batch()]
        return values

    @property
    def stream(self) -> Stream:
        """The newest stream."""
        return self.streams[-1]

    async def ShareGroupHeartbeat(
        self, request: groups.ShareGroupHeartbeatRequest, context: Context
    ) -> groups.ShareGroupHeartbeatResponse:
        self._note(context, "ShareGroupHeartbeat")
        self.heartbeats.append(request)
        if self.heartbeat_errors and request.member_epoch >= 0:
            error = self.heartbeat_errors.pop(0)
            if error:
                self._assigned = None
                return groups.ShareGroupHeartbeatResponse(error_code=int(error))  # type: ignore[arg-type]  # the enum's number
        response = groups.ShareGroupHeartbeatResponse(
            member_epoch=max(request.member_epoch, 1) if request.member_epoch >= 0 else -1,
            heartbeat_interval_ms=round(self.heartbeat_interval * 1000),
        )
        if request.member_epoch == 0 or self._assigned != self.partitions:
            self._assigned = self.partitions
            response.assignment.topic_partitions.add(topic_id=TOPIC_ID, partitions=self.partitions)
        return response

    async def Consume(
        self, requests: AsyncIterator[ConsumeRequest], context: Context
    ) -> AsyncIterator[ConsumeResponse]:
        if self.refusal is not None:
            await _abort(context, self.refusal)
        self._note(context, "Consume")
        stream = Stream()
        self.streams.append(stream)
        reading = asyncio.create_task(self._read(stream, requests))
        try:
            while isinstance(response := await stream.out.get(), ConsumeResponse):
                yield response
            if response is not None:
                await _abort(context, response)
        finally:
            stream.ended = True
            reading.cancel()

    async def Acknowledge(self, request: AcknowledgeRequest, context: Context) -> AcknowledgeResponse:
        self._note(context, "Acknowledge")
        self.decisions.extend(request.acknowledgements)
        error = self.acknowledge_errors.pop(0) if self.acknowledge_errors else None
        if isinstance(error, KafkaError):
            await abort(context, error)
        response = AcknowledgeResponse()
        for decision in request.acknowledgements:
            code = error if isinstance(error, ErrorCode) else self._error_of(decision)
            deadline = round(FAR * 1000)
            response.results.add(topic=decision.topic, error_code=code.value, lock_deadline_ms=deadline)
        return response

    def _error_of(self, decision: AcknowledgeRequest.Decision) -> ErrorCode:
        offsets = range(decision.offset, decision.last_offset + 1)
        if not self.unavailable_offsets.isdisjoint(offsets):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE if self.lost_offsets.isdisjoint(offsets) else ErrorCode.INVALID_RECORD_STATE

    async def _read(self, stream: Stream, requests: AsyncIterator[ConsumeRequest]) -> None:
        with contextlib.suppress(grpc.aio.BaseError, grpc.RpcError):
            async for request in requests:
                if request.HasField("subscribe"):
                    stream.first = request
                    subscribed = ConsumeResponse.Subscribed(acquisition_lock_timeout_ms=400)
                    stream.out.put_nowait(ConsumeResponse(subscribed=subscribed))
                if request.HasField("assignment"):
                    stream.assignment = [p.partition for p in request.assignment.partitions]
                stream.credit += request.credit
                stream.rest_unseen |= request.rest_unseen
                stream.acknowledgements.extend(request.acknowledgements)
                stream.all_acknowledgements.extend(request.acknowledgements)
                stream.messages += 1
                if self.auto_answer and request.acknowledgements:
                    stream.answer(deadline=FAR)
            stream.finished = True
            if self.ends_streams:
                stream.end()

    async def Metadata(
        self, request: admin_pb2.MetadataRequest, context: Context
    ) -> admin_pb2.MetadataResponse:
        self._note(context, "Metadata")
        if self.admin_error is not None:
            await _abort(context, self.admin_error)
        topic = admin_pb2.MetadataResponse.Topic(name="flights", topic_id=TOPIC_ID)
        if self.topic_partitions == 0:
            topic.error_code = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)  # type: ignore[assignment]  # the enum's number
        for index in range(self.topic_partitions):
            topic.partitions.add(partition_index=index)
        return admin_pb2.MetadataResponse(topics=[topic])

    async def CreateTopics(
        self, request: cluster_pb2.CreateTopicsRequest, context: Context
    ) -> cluster_pb2.CreateTopicsResponse:
        response = cluster_pb2.CreateTopicsResponse()
        for topic in request.topics:
            exists = topic.name in self.created
            code = ErrorCode.TOPIC_ALREADY_EXISTS if exists else ErrorCode.NONE
            response.topics.add(name=topic.name, error_code=int(code))
            if not exists:
                self.created.append(topic.name)
        return response

    async def DescribeConfigs(
        self, request: admin_pb2.DescribeConfigsRequest, context: Context
    ) -> admin_pb2.DescribeConfigsResponse:
        response = admin_pb2.DescribeConfigsResponse()
        result = response.results.add(error_code=int(self.describe_error))
        if not self.describe_error:
            result.configs.add(name="errors.deadletterqueue.topic.name.prefix", value="dlq.")
        return response

    async def IncrementalAlterConfigs(
        self, request: cluster_pb2.IncrementalAlterConfigsRequest, context: Context
    ) -> cluster_pb2.IncrementalAlterConfigsResponse:
        error = self.config_errors.pop(0) if self.config_errors else ErrorCode.NONE
        response = cluster_pb2.IncrementalAlterConfigsResponse()
        for resource in request.resources:
            response.responses.add(error_code=int(error))
            if not error:
                self.configs |= {config.name: config.value for config in resource.configs}
        return response

    async def ProduceStream(
        self, requests: AsyncIterator[produce_pb2.ProduceStreamRequest], context: Context
    ) -> AsyncIterator[produce_pb2.ProduceStreamResponse]:
        self._note(context, "ProduceStream")
        self.produce_streams += 1
        held: list[produce_pb2.ProduceStreamResponse] = []
        async for request in requests:
            self.produce_requests += 1
            if self.silent:
                continue
            response = produce_pb2.ProduceStreamResponse(id=request.id)
            error = self.produce_errors.pop(0) if self.produce_errors else ErrorCode.NONE
            if error is ErrorCode.SASL_AUTHENTICATION_FAILED:
                await _abort(context, KafkaError(error))
            if error is ErrorCode.LEADER_NOT_AVAILABLE:
                await context.abort(grpc.StatusCode.UNAVAILABLE, "gone")
            for topic in request.produce.topic_data:
                answer = response.produce.responses.add(name=topic.name, topic_id=self.topic_id)
                for part in topic.partition_data:
                    base = len(self.stored(part.index))
                    if not error:
                        self.produced.append((part.index, part.records))
                    answer.partition_responses.add(
                        index=part.index,
                        error_code=int(error),
                        base_offset=base,
                        log_append_time_ms=-1,
                    )
            if self.lose_responses:
                self.lose_responses -= 1
                await context.abort(grpc.StatusCode.UNAVAILABLE, "gone")
            held.append(response)
            indexes = {part.index for topic in request.produce.topic_data for part in topic.partition_data}
            if not indexes & self.held_partitions:
                ready = held if not self.held_partitions else [held[-1]]
                held = [each for each in held if each not in ready]
                for each in ready:
                    yield each

    async def InitProducerId(
        self, request: InitProducerIdRequest, context: Context
    ) -> InitProducerIdResponse:
        self._note(context, "InitProducerId")
        if self.producer_id_errors:
            await _abort(context, self.producer_id_errors.pop(0))
        self.producer_ids += 1
        return InitProducerIdResponse(producer_id=self.producer_ids, producer_epoch=self.first_epoch)

    def _note(self, context: Context, method: str) -> None:
        metadata = dict(context.invocation_metadata() or ())
        self.client_ids[method] = str(metadata.get("client-id", ""))


async def _abort(context: Context, error: grpc.StatusCode | KafkaError) -> None:
    if isinstance(error, KafkaError):
        await abort(context, error)
    else:
        await context.abort(error, "as the test requires")


class _Servicer:
    """Topics and groups that a test did not set are unknown."""

    def __init__(self, gateway: FakeGateway) -> None:
        self._gateway = gateway

    def __getattr__(self, method: str) -> object:
        return getattr(self._gateway, method, None)
