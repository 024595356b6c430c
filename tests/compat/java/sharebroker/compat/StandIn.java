package sharebroker.compat;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ShareConsumer;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.metadata.MetadataCache;
import org.apache.kafka.server.fault.FaultHandlerException;
import org.apache.kafka.test.TestUtils;

/**
 * A cluster in other processes. Kafka's tests look into their brokers at a few places; this answers there from
 * what clients can see, and refuses what it cannot know.
 */
final class StandIn implements ClusterInstance {
    private static final long READY_MS = 30_000;
    private static final long ANSWER_SECONDS = 10;

    private final Servers servers;
    private final ClusterConfig config;
    private final RenewMeter meter = new RenewMeter();
    private Map<Integer, String> addresses = Map.of();
    private boolean stopped;

    StandIn(Servers servers, ClusterConfig config) {
        this.servers = servers;
        this.config = config;
    }

    @Override
    public void start() {
        meter.register();
        addresses = servers.start(config.numBrokers(), config.serverProperties());
    }

    @Override
    public void stop() {
        if (started() && !stopped) {
            stopped = true;
            servers.stop();
        }
    }

    @Override
    public boolean started() {
        return !addresses.isEmpty();
    }

    @Override
    public boolean stopped() {
        return stopped;
    }

    @Override
    public void shutdownBroker(int id) {
        servers.stopBroker(id);
    }

    @Override
    public void startBroker(int id) {
        servers.startBroker(id);
    }

    @Override
    public void waitForReadyBrokers() throws InterruptedException {
        TestUtils.waitForCondition(
            () -> nodes().size() == addresses.size(), READY_MS, "not all brokers show themselves to clients");
    }

    @Override
    public String bootstrapServers() {
        return String.join(",", addresses.values());
    }

    @Override
    public <K, V> ShareConsumer<K, V> shareConsumer(
            Map<String, Object> configs, Deserializer<K> keys, Deserializer<V> values) {
        return meter.watching(ClusterInstance.super.shareConsumer(configs, keys, values));
    }

    @Override
    public Map<Integer, KafkaBroker> brokers() {
        Map<Integer, KafkaBroker> brokers = new TreeMap<>();
        addresses.keySet().forEach(id -> brokers.put(id, broker()));
        return brokers;
    }

    /** Stopping a broker waits for its end, so there is nothing left to await. */
    private KafkaBroker broker() {
        return answering(KafkaBroker.class, (self, method, arguments) -> switch (method.getName()) {
            case "awaitShutdown" -> null;
            case "metadataCache" -> metadataCache();
            default -> throw unknown(method.toString());
        });
    }

    private MetadataCache metadataCache() {
        return answering(MetadataCache.class, (self, method, arguments) -> switch (method.getName()) {
            case "getAliveBrokerNodes" -> List.copyOf(nodes());
            default -> throw unknown(method.toString());
        });
    }

    private Collection<Node> nodes() {
        try (Admin admin = admin()) {
            return admin.describeCluster().nodes().get(ANSWER_SECONDS, TimeUnit.SECONDS);
        } catch (Exception e) {
            return List.of();
        }
    }

    private static <T> T answering(Class<T> type, InvocationHandler answers) {
        return type.cast(Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, answers));
    }

    private static UnsupportedOperationException unknown(String what) {
        return new UnsupportedOperationException("The stand-in does not support: " + what);
    }

    @Override
    public Type type() {
        return Type.KRAFT;
    }

    @Override
    public ClusterConfig config() {
        return config;
    }

    @Override
    public ListenerName clientListener() {
        return config.brokerListenerName();
    }

    @Override
    public String clusterId() {
        try (Admin admin = admin()) {
            return admin.describeCluster().clusterId().get(ANSWER_SECONDS, TimeUnit.SECONDS);
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    @Override
    public Map<Integer, ControllerServer> controllers() {
        throw unknown("controllers");
    }

    @Override
    public Set<Integer> controllerIds() {
        throw unknown("controllerIds");
    }

    @Override
    public ListenerName controllerListenerName() {
        throw unknown("controllerListenerName");
    }

    @Override
    public String bootstrapControllers() {
        throw unknown("bootstrapControllers");
    }

    @Override
    public Optional<FaultHandlerException> firstFatalException() {
        throw unknown("firstFatalException");
    }

    @Override
    public Optional<FaultHandlerException> firstNonFatalException() {
        throw unknown("firstNonFatalException");
    }
}
