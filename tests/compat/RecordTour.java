import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Records of every form, as Java's two consumers receive them; prints a line for each: "as sent" or the difference. */
public final class RecordTour {
    private static final int LIMIT = 3_000_000;
    /** Bytes of a batch beyond the value of its only record, which has several megabytes and no key. */
    private static final int FRAME = 61 + 13;
    private static final long LONG_AGO = 1_234_567_890_123L;
    private static final Duration POLL = Duration.ofMillis(500);
    private static final int POLLS = 40;

    private final Map<String, Object> server;
    private final String topic;
    private final List<ProducerRecord<byte[], byte[]>> sent = new ArrayList<>();

    private RecordTour(String bootstrap, String topic) {
        server = Map.of("bootstrap.servers", bootstrap);
        this.topic = topic;
    }

    /** Arguments: bootstrap servers, a topic to create, and its message.timestamp.type. */
    public static void main(String[] arguments) throws Exception {
        var tour = new RecordTour(arguments[0], arguments[1]);
        tour.prepare(arguments[2]);
        for (String compression : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            tour.produce(compression);
        }
        tour.produceLargest();
        tour.assign();
        tour.share();
    }

    private void prepare(String timestampType) throws Exception {
        try (Admin admin = Admin.create(server)) {
            var settings = Map.of("message.timestamp.type", timestampType, "max.message.bytes", "" + LIMIT);
            admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1).configs(settings))).all().get();
            var earliest = new AlterConfigOp(
                new ConfigEntry("share.auto.offset.reset", "earliest"), AlterConfigOp.OpType.SET);
            var group = new ConfigResource(ConfigResource.Type.GROUP, topic);
            admin.incrementalAlterConfigs(Map.of(group, List.of(earliest))).all().get();
        }
    }

    private void produce(String compression) throws Exception {
        try (var producer = producer(compression)) {
            send(producer, record(bytes("key"), bytes(compression)));
            send(producer, record(null, bytes("no key")));
            send(producer, record(bytes("tombstone"), null));
            send(producer, record(new byte[0], new byte[0]));
            send(producer, record(bytes("large"), bytes("much ".repeat(50_000))));
            var withHeaders = record(bytes("key"), bytes("headers"));
            withHeaders.headers().add("twice", bytes("1")).add("twice", bytes("2")).add("empty", new byte[0]);
            withHeaders.headers().add("null", null);
            send(producer, withHeaders);
        }
    }

    private void produceLargest() throws Exception {
        var value = new byte[LIMIT - FRAME];
        new Random(1).nextBytes(value);
        try (var producer = producer("none")) {
            send(producer, record(null, value));
            try {
                producer.send(record(null, new byte[LIMIT - FRAME + 1])).get();
                System.out.println("beyond the limit: taken");
            } catch (ExecutionException error) {
                System.out.println("beyond the limit: " + error.getCause().getClass().getSimpleName());
            }
        }
    }

    private void assign() {
        try (var consumer = new KafkaConsumer<>(server, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            var partition = new TopicPartition(topic, 0);
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            int got = 0;
            for (int poll = 0; poll < POLLS && got < sent.size(); poll++) {
                got += compare("assigned", consumer.poll(POLL));
            }
        }
    }

    private void share() {
        Map<String, Object> config = new HashMap<>(server);
        config.put("group.id", topic);
        try (var consumer = new KafkaShareConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(topic));
            int got = 0;
            for (int poll = 0; poll < POLLS && got < sent.size(); poll++) {
                got += compare("shared", consumer.poll(POLL));
            }
        }
    }

    private int compare(String how, ConsumerRecords<byte[], byte[]> records) {
        for (ConsumerRecord<byte[], byte[]> got : records) {
            var one = sent.get((int) got.offset());
            var wrong = new ArrayList<String>();
            check(wrong, "key", Arrays.equals(got.key(), one.key()));
            check(wrong, "value", Arrays.equals(got.value(), one.value()));
            check(wrong, "headers", Arrays.equals(got.headers().toArray(), one.headers().toArray()));
            String time = got.timestamp() == LONG_AGO ? "sent" : got.timestamp() > LONG_AGO ? "later" : "lost";
            System.out.printf("%s %d: %s, %s %s%n", how, got.offset(), wrong.isEmpty() ? "as sent" : wrong,
                got.timestampType(), time);
        }
        return records.count();
    }

    private static void check(List<String> wrong, String what, boolean same) {
        if (!same) {
            wrong.add(what);
        }
    }

    private void send(KafkaProducer<byte[], byte[]> producer, ProducerRecord<byte[], byte[]> record) throws Exception {
        sent.add(record);
        producer.send(record).get();
    }

    private ProducerRecord<byte[], byte[]> record(byte[] key, byte[] value) {
        return new ProducerRecord<>(topic, 0, LONG_AGO, key, value);
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private KafkaProducer<byte[], byte[]> producer(String compression) {
        Map<String, Object> config = new HashMap<>(server);
        config.put("compression.type", compression);
        config.put("max.request.size", 2 * LIMIT);
        return new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
    }
}
