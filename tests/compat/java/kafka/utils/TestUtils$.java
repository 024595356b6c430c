package kafka.utils;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.internals.Topic;
import scala.collection.Seq;

/** The Scala object of Kafka's helper, for brokers in other processes: whatever it creates is seen by clients. */
public final class TestUtils$ {
    public static final TestUtils$ MODULE$ = new TestUtils$();

    private TestUtils$() {
    }

    /** Creates the topic of committed offsets unless it exists; no test uses the result, the leaders. */
    public <B extends KafkaBroker> scala.collection.Map<Object, Object> createOffsetsTopicWithAdmin(
            Admin admin, Seq<B> brokers, Seq<ControllerServer> controllers) throws Exception {
        var topic = new NewTopic(Topic.GROUP_METADATA_TOPIC_NAME, 1, (short) 1);
        try {
            admin.createTopics(List.of(topic.configs(Map.of("cleanup.policy", "compact")))).all().get();
        } catch (ExecutionException e) {
            if (!(e.getCause() instanceof TopicExistsException)) {
                throw e;
            }
        }
        return scala.collection.immutable.Map$.MODULE$.empty();
    }

    /** Creates a topic whose replicas are placed by the cluster. */
    public <B extends KafkaBroker> Uuid createTopicWithAdminRaw(
            Admin admin,
            String name,
            int partitions,
            int replicas,
            scala.collection.Map<Object, Seq<Object>> placement,
            Properties configs) throws Exception {
        Map<String, String> texts = new HashMap<>();
        configs.forEach((key, value) -> texts.put(key.toString(), value.toString()));
        var topic = new NewTopic(name, partitions, (short) replicas).configs(texts);
        return admin.createTopics(List.of(topic)).topicId(name).get();
    }

    /** Deletes a topic; Kafka's helper also waits until each broker's cache lacks it. */
    public <B extends KafkaBroker> void deleteTopicWithAdmin(
            Admin admin, String name, Seq<B> brokers, Seq<ControllerServer> controllers) throws Exception {
        admin.deleteTopics(List.of(name)).all().get();
    }

    public <B extends KafkaBroker> int createTopicWithAdminRaw$default$3() {
        return 1;
    }

    public <B extends KafkaBroker> int createTopicWithAdminRaw$default$4() {
        return 1;
    }

    public <B extends KafkaBroker> scala.collection.Map<Object, Seq<Object>> createTopicWithAdminRaw$default$5() {
        return scala.collection.immutable.Map$.MODULE$.empty();
    }

    public <B extends KafkaBroker> Properties createTopicWithAdminRaw$default$6() {
        return new Properties();
    }

    /** How long a test waits for a condition, in milliseconds. */
    public long waitUntilTrue$default$3() {
        return 15_000;
    }

    /** The time between two checks, in milliseconds. */
    public long waitUntilTrue$default$4() {
        return 100;
    }
}
