import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Consumers of a consumer group, one after the other; prints a line for each result that a test checks. */
public final class ConsumerTour {
    private static final Duration POLL = Duration.ofSeconds(1);
    private static final int POLLS = 60;

    private final String bootstrap;
    private final String topic;

    private ConsumerTour(String bootstrap, String topic) {
        this.bootstrap = bootstrap;
        this.topic = topic;
    }

    /** Arguments: bootstrap servers, and a topic with ten records in one partition. */
    public static void main(String[] arguments) {
        var tour = new ConsumerTour(arguments[0], arguments[1]);
        tour.consume("first", 4);
        tour.consume("second", 6);
        tour.move();
        tour.consume("third", 2);
    }

    private void consume(String name, int wanted) {
        List<String> values = new ArrayList<>();
        try (var consumer = consumer()) {
            consumer.subscribe(List.of(topic));
            for (int poll = 0; poll < POLLS && values.size() < wanted; poll++) {
                for (ConsumerRecord<String, String> one : consumer.poll(POLL)) {
                    values.add(one.value());
                }
            }
            consumer.commitSync();
        }
        System.out.println(name + ": " + String.join(" ", values));
    }

    private void move() {
        try (var consumer = consumer()) {
            var partition = new TopicPartition(topic, 0);
            consumer.assign(List.of(partition));
            consumer.commitSync(Map.of(partition, new OffsetAndMetadata(8, "moved")));
            System.out.println("committed: " + consumer.committed(java.util.Set.of(partition)).get(partition).metadata());
        }
    }

    private KafkaConsumer<String, String> consumer() {
        Map<String, Object> config = Map.of(
            "bootstrap.servers", bootstrap, "group.id", "tourists", "auto.offset.reset", "earliest",
            "enable.auto.commit", false, "max.poll.records", 2, "heartbeat.interval.ms", 500);
        return new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
    }
}
