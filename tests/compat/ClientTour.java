import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** A program's calls of Kafka's Java clients, in one tour; prints a line for each result that a test checks. */
public final class ClientTour {
    private static final Duration POLL = Duration.ofSeconds(1);
    private static final int POLLS = 30;

    private final String topic;
    private final String group;
    private final Map<String, Object> server;
    private final Map<String, Object> log;

    private ClientTour(String topic, String bootstrap, String log) {
        this.topic = topic;
        this.group = topic + "-tourists";
        this.server = Map.of("bootstrap.servers", bootstrap);
        this.log = Map.of("bootstrap.servers", log);
    }

    /** Arguments: a new topic, bootstrap servers, and those of the cluster that has the records, if it is another one. */
    public static void main(String[] arguments) throws Exception {
        var tour = new ClientTour(arguments[0], arguments[1], arguments[arguments.length - 1]);
        tour.prepare();
        for (String compression : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            tour.produce(compression);
        }
        tour.commitTransaction();
        tour.consume();
        tour.consumeOneByOne();
        tour.describe();
    }

    private void prepare() throws Exception {
        try (Admin admin = Admin.create(log)) {
            admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all().get();
        }
        try (Admin admin = Admin.create(server)) {
            for (String group : List.of(group, oneByOne())) {
                var setting = new AlterConfigOp(
                    new ConfigEntry("share.auto.offset.reset", "earliest"), AlterConfigOp.OpType.SET);
                var resource = new ConfigResource(ConfigResource.Type.GROUP, group);
                admin.incrementalAlterConfigs(Map.of(resource, List.of(setting))).all().get();
            }
        }
    }

    private void produce(String compression) throws Exception {
        try (var producer = producer(Map.of("compression.type", compression))) {
            var record = new ProducerRecord<>(topic, "key", compression);
            record.headers().add("compression", compression.getBytes(StandardCharsets.UTF_8));
            producer.send(record).get();
            producer.send(new ProducerRecord<>(topic, null, compression + " without a key")).get();
            producer.send(new ProducerRecord<>(topic, compression + " deleted", null)).get();
        }
    }

    private void commitTransaction() throws Exception {
        try (var producer = producer(Map.of("transactional.id", topic))) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, "key", "in a transaction"));
            producer.commitTransaction();
        }
    }

    /** Accepts all but the first two: one of these is released at its first delivery, one rejected. */
    private void consume() {
        try (var consumer = consumer(group, Map.of("share.acknowledgement.mode", "explicit"))) {
            int finished = 0;
            for (int poll = 0; poll < POLLS && finished < 16; poll++) {
                for (ConsumerRecord<String, String> record : consumer.poll(POLL)) {
                    boolean released = record.offset() == 0 && record.deliveryCount().orElseThrow() == 1;
                    finished += released ? 0 : 1;
                    consumer.acknowledge(record, released ? AcknowledgeType.RELEASE
                        : record.offset() == 1 ? AcknowledgeType.REJECT : AcknowledgeType.ACCEPT);
                    print("record %d: %s=%s, headers %s, delivery %d", record.offset(), record.key(),
                        record.value(), headers(record), record.deliveryCount().orElseThrow());
                }
                consumer.commitSync().forEach((partition, error) ->
                    error.ifPresent(e -> print("commit of %s failed: %s", partition, e)));
            }
        }
    }

    private void consumeOneByOne() {
        var special = Map.<String, Object>of("share.acquire.mode", "record_limit", "max.poll.records", "1");
        List<Integer> counts = new ArrayList<>();
        try (var consumer = consumer(oneByOne(), special)) {
            for (int poll = 0; poll < POLLS && counts.size() < 3; poll++) {
                int count = consumer.poll(POLL).count();
                consumer.commitSync();
                if (count > 0) {
                    counts.add(count);
                }
            }
        }
        print("one by one: %s", counts);
    }

    private void describe() throws Exception {
        try (Admin admin = Admin.create(server)) {
            var offsets = admin.listShareGroupOffsets(Map.of(group,
                new ListShareGroupOffsetsSpec())).partitionsToOffsetInfo(group).get();
            offsets.forEach((partition, info) -> print("start of %s: %d", partition, info.startOffset()));
            var described = admin.describeShareGroups(List.of(group)).describedGroups().get(group).get();
            print("group: %s with %d members", described.groupState(), described.members().size());
        }
    }

    private String oneByOne() {
        return topic + "-one-by-one";
    }

    private KafkaProducer<String, String> producer(Map<String, Object> special) {
        Map<String, Object> config = new HashMap<>(log);
        config.putAll(special);
        return new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
    }

    private KafkaShareConsumer<String, String> consumer(String group, Map<String, Object> special) {
        Map<String, Object> config = new HashMap<>(server);
        config.put("group.id", group);
        config.putAll(special);
        var consumer = new KafkaShareConsumer<>(config, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(topic));
        return consumer;
    }

    private static String headers(ConsumerRecord<?, ?> record) {
        var found = new ArrayList<String>();
        record.headers().forEach(h -> found.add(h.key() + "=" + new String(h.value(), StandardCharsets.UTF_8)));
        return found.stream().collect(Collectors.joining(",", "[", "]"));
    }

    private static void print(String text, Object... values) {
        System.out.println(text.formatted(values));
    }
}
