import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Consume, transform, produce: every second transaction is aborted; prints a line for each result that a test checks. */
public final class TransactionTour {
    private static final Duration POLL = Duration.ofSeconds(1);
    private static final int POLLS = 60;

    private final String bootstrap;
    private final TopicPartition source;
    private final TopicPartition target;
    private int turn;

    private TransactionTour(String bootstrap, String source, String target) {
        this.bootstrap = bootstrap;
        this.source = new TopicPartition(source, 0);
        this.target = new TopicPartition(target, 0);
    }

    /** Arguments: bootstrap servers, a topic with records in one partition, their number, and an empty topic. */
    public static void main(String[] arguments) {
        var tour = new TransactionTour(arguments[0], arguments[1], arguments[3]);
        int records = Integer.parseInt(arguments[2]);
        tour.move(records);
        tour.read(records);
    }

    private void move(int records) {
        Map<String, Object> config = Map.of("bootstrap.servers", bootstrap, "transactional.id", source.topic());
        try (var consumer = consumer("movers of " + source.topic());
                var producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            consumer.subscribe(List.of(source.topic()));
            int done = 0;
            for (int poll = 0; poll < POLLS && done < records; poll++) {
                done += transact(consumer, producer);
            }
            System.out.println("committed: " + consumer.committed(Set.of(source)).get(source).offset());
        }
    }

    private int transact(KafkaConsumer<String, String> consumer, KafkaProducer<String, String> producer) {
        var found = consumer.poll(POLL);
        if (found.isEmpty()) {
            return 0;
        }
        producer.beginTransaction();
        for (ConsumerRecord<String, String> one : found) {
            producer.send(new ProducerRecord<>(target.topic(), 0, one.key(), one.value()));
        }
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        offsets.put(source, new OffsetAndMetadata(consumer.position(source)));
        producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
        if (turn++ % 2 == 1) {
            producer.commitTransaction();
            return found.count();
        }
        producer.abortTransaction();
        var committed = consumer.committed(Set.of(source)).get(source);
        consumer.seek(source, committed == null ? 0 : committed.offset());
        return 0;
    }

    private void read(int records) {
        List<String> values = new ArrayList<>();
        try (var consumer = consumer("readers")) {
            consumer.assign(List.of(target));
            consumer.seekToBeginning(List.of(target));
            for (int poll = 0; poll < POLLS && values.size() < records; poll++) {
                for (ConsumerRecord<String, String> one : consumer.poll(POLL)) {
                    values.add(one.value());
                }
            }
        }
        System.out.println("moved: " + String.join(" ", values));
    }

    private KafkaConsumer<String, String> consumer(String group) {
        Map<String, Object> config = Map.of(
            "bootstrap.servers", bootstrap, "group.id", group, "auto.offset.reset", "earliest",
            "enable.auto.commit", false, "max.poll.records", 4, "isolation.level", "read_committed");
        return new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
    }
}
