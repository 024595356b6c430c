import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Requests that the server does not support; prints a line for each: the resulting exception, or "nothing". */
public final class UnsupportedTour {
    private static final Duration POLL = Duration.ofMillis(200);
    private static final int POLLS = 75;

    private final String bootstrap;
    private final TopicPartition partition;

    private UnsupportedTour(String bootstrap, String topic) {
        this.bootstrap = bootstrap;
        this.partition = new TopicPartition(topic, 0);
    }

    /** Arguments: bootstrap servers, a topic, and the names of the requests. */
    public static void main(String[] arguments) {
        var tour = new UnsupportedTour(arguments[0], arguments[1]);
        for (String wanted : List.of(arguments).subList(2, arguments.length)) {
            try {
                tour.attempt(wanted);
                System.out.println(wanted + ": nothing");
            } catch (Exception error) {
                System.out.println(wanted + ": " + error.getClass().getSimpleName() + ": " + error.getMessage());
            }
        }
    }

    private void attempt(String wanted) {
        switch (wanted) {
            case "share" -> share();
            default -> subscribe();
        }
    }

    private void subscribe() {
        try (var consumer = consumer()) {
            consumer.subscribe(List.of(partition.topic()));
            for (int poll = 0; poll < POLLS; poll++) {
                consumer.poll(POLL);
            }
        }
    }

    private void share() {
        Map<String, Object> config = Map.of("bootstrap.servers", bootstrap, "group.id", "share");
        try (var consumer = new KafkaShareConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(partition.topic()));
            for (int poll = 0; poll < POLLS; poll++) {
                consumer.poll(POLL);
            }
        }
    }

    private KafkaConsumer<String, String> consumer() {
        Map<String, Object> config = Map.of(
            "bootstrap.servers", bootstrap, "group.id", "refused", "group.protocol", "consumer");
        return new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
    }
}
