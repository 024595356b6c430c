import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterConfigOp.OpType;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.ListConfigResourcesOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.config.ConfigResource;

/** An operator's calls of Kafka's Admin, in one tour; prints a line for each result that a test checks. */
public final class AdminTour {
    private final Admin admin;
    private final String topic;

    private AdminTour(Admin admin, String topic) {
        this.admin = admin;
        this.topic = topic;
    }

    /** Arguments: bootstrap servers, and a unique name. */
    public static void main(String[] arguments) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            var tour = new AdminTour(admin, arguments[1]);
            tour.topics();
            tour.configs(new ConfigResource(ConfigResource.Type.TOPIC, tour.topic), "segment.ms", "7");
            tour.configs(new ConfigResource(ConfigResource.Type.GROUP, tour.topic), "share.isolation.level", "read_committed");
            tour.cluster();
            tour.delete();
        }
    }

    private void topics() throws Exception {
        var wanted = new NewTopic(topic, 2, (short) 1).configs(Map.of("retention.ms", "9000"));
        var dry = admin.createTopics(List.of(wanted), new CreateTopicsOptions().validateOnly(true));
        print("validated", dry.numPartitions(topic).get());
        var made = admin.createTopics(List.of(wanted));
        print("created", made.replicationFactor(topic).get() + " " + made.config(topic).get().get("retention.ms").value());
        print("again", error(admin.createTopics(List.of(wanted)).all()));
        admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all().get();
        var options = new DescribeTopicsOptions().partitionSizeLimitPerResponse(2);
        var shown = admin.describeTopics(List.of(topic), options).allTopicNames().get().get(topic);
        print("described", shown.partitions().size());
        var ids = TopicCollection.ofTopicIds(List.of(made.topicId(topic).get()));
        print("by id", admin.describeTopics(ids).allTopicIds().get().values().iterator().next().name().equals(topic));
        print("listed", admin.listTopics().names().get().contains(topic));
        print("internal", admin.listTopics().names().get().contains("__share_group_state"));
    }

    private void configs(ConfigResource resource, String name, String value) throws Exception {
        alter(resource, name, value, OpType.SET);
        var entry = admin.describeConfigs(List.of(resource)).all().get().get(resource).get(name);
        print(resource.type() + " set", entry.value() + " " + entry.source());
        alter(resource, name, null, OpType.DELETE);
        entry = admin.describeConfigs(List.of(resource)).all().get().get(resource).get(name);
        print(resource.type() + " put back", entry.value() + " " + entry.source());
        print(resource.type() + " rejected", error(change(resource, name, "nonsense", OpType.SET)));
    }

    private void alter(ConfigResource resource, String name, String value, OpType type) throws Exception {
        change(resource, name, value, type).get();
    }

    private KafkaFuture<Void> change(ConfigResource resource, String name, String value, OpType type) {
        var operation = new AlterConfigOp(new ConfigEntry(name, value), type);
        return admin.incrementalAlterConfigs(Map.of(resource, List.of(operation))).all();
    }

    private void cluster() throws Exception {
        var cluster = admin.describeCluster(new DescribeClusterOptions().includeAuthorizedOperations(true));
        print("controller", cluster.nodes().get().contains(cluster.controller().get()));
        print("operations", cluster.authorizedOperations().get().size());
        var levels = new TreeMap<String, Object>();
        admin.describeFeatures().featureMetadata().get().finalizedFeatures()
            .forEach((name, range) -> levels.put(name, range.maxVersionLevel()));
        print("features", levels);
        var update = Map.of("share.version", new FeatureUpdate((short) 2, FeatureUpdate.UpgradeType.UPGRADE));
        admin.updateFeatures(update, new UpdateFeaturesOptions()).all().get();
        var kinds = new TreeSet<String>();
        for (var one : admin.listConfigResources(Set.of(), new ListConfigResourcesOptions()).all().get()) {
            kinds.add(one.type().name());
        }
        print("kinds", kinds);
    }

    private void delete() throws Exception {
        admin.deleteTopics(List.of(topic)).all().get();
        print("deleted", error(admin.deleteTopics(List.of(topic)).all()));
    }

    private static String error(KafkaFuture<?> future) throws InterruptedException {
        try {
            future.get();
            return "none";
        } catch (ExecutionException failure) {
            return failure.getCause().getClass().getSimpleName();
        }
    }

    private static void print(String what, Object value) {
        System.out.println(what + ": " + value);
    }
}
