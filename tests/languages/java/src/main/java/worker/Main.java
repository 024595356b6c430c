package worker;

import io.grpc.ChannelCredentials;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.TlsChannelCredentials;
import io.grpc.stub.MetadataUtils;
import io.grpc.stub.StreamObserver;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import sharebroker.delivery.v1.DeliveryOuterClass.AcknowledgeType;
import sharebroker.delivery.v1.DeliveryOuterClass.Acknowledgement;
import sharebroker.delivery.v1.DeliveryOuterClass.AcknowledgementResult;
import sharebroker.gateway.v1.Share.ConsumeRequest;
import sharebroker.gateway.v1.Share.ConsumeResponse;
import sharebroker.gateway.v1.Share.ShareRecord;
import sharebroker.gateway.v1.ShareServiceGrpc;

/**
 * A work-queue consumer: Main ADDRESS GROUP TOPIC COUNT.
 *
 * <p>Acknowledges each record separately and waits for its durable result. The program ends when COUNT records or more are
 * finished, or on SIGINT or SIGTERM. Before it ends, it receives the results of its acknowledgements; the server releases
 * the other records.
 */
public final class Main implements StreamObserver<ConsumeResponse> {
    private static final int CREDIT = 10;

    private final CompletableFuture<Void> over = new CompletableFuture<>();
    private final Map<Long, Boolean> last = new HashMap<>(); // by id: whether the record is finished then
    private final int count;
    private StreamObserver<ConsumeRequest> requests;
    private int finished;
    private boolean stopping;

    private Main(int count) {
        this.count = count;
    }

    public static void main(String[] arguments) throws InterruptedException, IOException {
        if (arguments.length != 4 || !arguments[3].matches("\\d{1,9}")) {
            System.err.println("Main ADDRESS GROUP TOPIC COUNT");
            System.exit(2);
        }
        ManagedChannel channel = Grpc.newChannelBuilder(arguments[0], credentials()).build();
        Main worker = new Main(Integer.parseInt(arguments[3]));
        var authorization = MetadataUtils.newAttachHeadersInterceptor(authorization());
        worker.begin(ShareServiceGrpc.newStub(channel).withInterceptors(authorization), arguments[1], arguments[2]);
        Runtime.getRuntime().addShutdownHook(new Thread(worker::drain));
        try {
            worker.over.get();
        } catch (ExecutionException failure) {
            Throwable cause = failure.getCause(); // the cause of the status, if any
            System.err.println(cause.getMessage() + (cause.getCause() == null ? "" : ": " + cause.getCause().getMessage()));
        }
        channel.shutdown().awaitTermination(10, TimeUnit.SECONDS);
    }

    /** Returns credentials for TLS if SHAREBROKER_CA names the file of the server's authority. */
    private static ChannelCredentials credentials() throws IOException {
        String authority = System.getenv("SHAREBROKER_CA");
        return authority == null
                ? InsecureChannelCredentials.create()
                : TlsChannelCredentials.newBuilder().trustManager(new File(authority)).build();
    }

    /** Returns metadata with the access token or the user of the environment; TLS protects it. */
    private static Metadata authorization() throws IOException {
        String token = System.getenv("SHAREBROKER_TOKEN_FILE");
        String user = System.getenv("SHAREBROKER_USER");
        Metadata metadata = new Metadata();
        if (token == null && user == null) {
            return metadata;
        }
        if (System.getenv("SHAREBROKER_CA") == null) {
            System.err.println("a user or a token needs SHAREBROKER_CA");
            System.exit(1);
        }
        String value;
        if (token != null) {
            value = "Bearer " + Files.readString(Path.of(token)).strip();
        } else {
            String password = Files.readString(Path.of(System.getenv("SHAREBROKER_PASSWORD_FILE"))).split("\n", 2)[0];
            value = "Basic " + Base64.getEncoder().encodeToString((user + ":" + password).getBytes());
        }
        metadata.put(Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER), value);
        return metadata;
    }

    /** Runs when the program ends, also by a signal. */
    private void drain() {
        stop();
        over.exceptionally(failure -> null).completeOnTimeout(null, 10, TimeUnit.SECONDS).join();
        Runtime.getRuntime().halt(over.isCompletedExceptionally() ? 1 : 0);
    }

    private synchronized void stop() {
        if (!stopping && !over.isDone()) {
            stopping = true;
            requests.onCompleted();
        }
    }

    private void begin(ShareServiceGrpc.ShareServiceStub stub, String group, String topic) {
        synchronized (this) {
            requests = stub.consume(this);
        }
        ConsumeRequest.Subscribe subscribe = ConsumeRequest.Subscribe.newBuilder()
                .setGroupId(group).addTopics(topic).setDecode(true).setAsText(true).setClientId("java").build();
        requests.onNext(ConsumeRequest.newBuilder().setSubscribe(subscribe).setCredit(CREDIT).build());
    }

    @Override
    public synchronized void onNext(ConsumeResponse answer) {
        for (AcknowledgementResult result : answer.getResultsList()) {
            if (result.getErrorCodeValue() != 0) {
                over.completeExceptionally(new IllegalStateException("not applied: " + result.getErrorMessage()));
            }
            finished += last.get(result.getId()) ? 1 : 0;
        }
        if (finished >= count) {
            stop();
        }
        if (answer.getRecordsCount() > 0 && !stopping) {
            ConsumeRequest.Builder request = ConsumeRequest.newBuilder().setCredit(answer.getRecordsCount());
            answer.getRecordsList().forEach(record -> request.addAcknowledgements(decided(record)));
            requests.onNext(request.build());
        }
    }

    /** Accepts a record, but rejects "bad" ones and releases "later" ones at their first delivery. */
    private Acknowledgement decided(ShareRecord record) {
        String text = record.getText();
        System.out.printf("%d %d %d %s%n", record.getPartition(), record.getOffset(), record.getDeliveryCount(), text);
        AcknowledgeType verdict = AcknowledgeType.ACKNOWLEDGE_TYPE_ACCEPT;
        if (text.startsWith("bad")) {
            verdict = AcknowledgeType.ACKNOWLEDGE_TYPE_REJECT;
        } else if (text.startsWith("later") && record.getDeliveryCount() == 1) {
            verdict = AcknowledgeType.ACKNOWLEDGE_TYPE_RELEASE;
        }
        long id = last.size() + 1;
        last.put(id, verdict != AcknowledgeType.ACKNOWLEDGE_TYPE_RELEASE);
        return Acknowledgement.newBuilder()
                .setId(id).setTopicId(record.getTopicId()).setPartition(record.getPartition())
                .setFirstOffset(record.getOffset()).setLockToken(record.getLockToken()).setType(verdict).build();
    }

    @Override
    public void onError(Throwable failure) {
        over.completeExceptionally(failure);
    }

    @Override
    public void onCompleted() {
        over.complete(null);
    }
}
