package sharebroker.compat;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;
import kafka.server.KafkaConfig;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.consumer.ShareConsumer;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.coordinator.group.GroupCoordinatorConfig;
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
    private final Map<Integer, KafkaConfig> configs = new HashMap<>();
    private Map<Integer, String> addresses = Map.of();
    private boolean stopped;

    StandIn(Servers servers, ClusterConfig config) {
        this.servers = servers;
        this.config = config;
    }

    @Override
    public void start() {
        meter.register();
        Map<String, Short> features = new TreeMap<>();
        config.features().forEach((feature, level) -> features.put(feature.featureName(), level));
        addresses = servers.start(config.numBrokers(), config.serverProperties(), features);
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
    public List<Integer> brokerBoundPorts() {
        return addresses.values().stream()
            .map(address -> Integer.valueOf(address.substring(address.lastIndexOf(':') + 1)))
            .toList();
    }

    @Override
    public void waitTopicCreation(String topic, int partitions) throws InterruptedException {
        TestUtils.waitForCondition(
            () -> partitionsOf(topic) == partitions, READY_MS, "not all partitions of " + topic + " are there");
    }

    private int partitionsOf(String topic) {
        try (Admin admin = admin()) {
            return admin.describeTopics(List.of(topic)).allTopicNames()
                .get(ANSWER_SECONDS, TimeUnit.SECONDS).get(topic).partitions().size();
        } catch (Exception e) {
            return -1;
        }
    }

    @Override
    public <K, V> ShareConsumer<K, V> shareConsumer(
            Map<String, Object> configs, Deserializer<K> keys, Deserializer<V> values) {
        return meter.watching(ClusterInstance.super.shareConsumer(configs, keys, values));
    }

    @Override
    public Map<Integer, KafkaBroker> brokers() {
        Map<Integer, KafkaBroker> brokers = new TreeMap<>();
        addresses.keySet().forEach(id -> brokers.put(id, broker(id)));
        return brokers;
    }

    /** Stopping a broker waits for its end, so there is nothing left to await. */
    private KafkaBroker broker(int id) {
        return answering(KafkaBroker.class, (self, method, arguments) -> switch (method.getName()) {
            case "awaitShutdown" -> null;
            case "metadataCache" -> metadataCache();
            case "config" -> configs.computeIfAbsent(id, this::configOf);
            default -> throw unknown(method.toString());
        });
    }

    /** The broker's id, and the property by which the tests select what they expect; all others are Kafka's. */
    private KafkaConfig configOf(int id) {
        var interval = GroupCoordinatorConfig.SHARE_GROUP_ASSIGNMENT_INTERVAL_MS_CONFIG;
        var resource = new ConfigResource(ConfigResource.Type.BROKER, Integer.toString(id));
        try (Admin admin = admin()) {
            Config described = admin.describeConfigs(List.of(resource)).all()
                .get(ANSWER_SECONDS, TimeUnit.SECONDS).get(resource);
            return new KafkaConfig(Map.of(
                "node.id", Integer.toString(id),
                "process.roles", "broker",
                "listeners", "PLAINTEXT://127.0.0.1:9092",
                "listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
                "controller.listener.names", "CONTROLLER",
                "controller.quorum.voters", "3000@127.0.0.1:9093",
                interval, described.get(interval).value()), false);
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
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

    /** No test of ours looks into a controller; some pass the empty list on. */
    @Override
    public Map<Integer, ControllerServer> controllers() {
        return Map.of();
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
