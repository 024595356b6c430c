import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Kafka's share consumer, controlled over a pipe. Arguments: the topic, then properties as key=value.
 *
 * Commands, one per line; the last line of each response is "done": "poll N SECONDS" (until N records arrived),
 * "acknowledge OFFSET TYPE" (of the last polled records), "commit", "close".
 */
public final class ShareConsole {
    private static final PrintStream responses = System.out;
    private static final Map<Long, ConsumerRecord<String, String>> held = new LinkedHashMap<>();

    public static void main(String[] arguments) throws Exception {
        System.setOut(System.err); // Log4j without a configuration writes errors of the client to standard output
        Properties settings = new Properties();
        for (int i = 1; i < arguments.length; i++) {
            String[] pair = arguments[i].split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        var texts = new StringDeserializer();
        try (var consumer = new KafkaShareConsumer<>(settings, texts, texts);
                var input = new BufferedReader(new InputStreamReader(System.in))) {
            consumer.subscribe(List.of(arguments[0]));
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                String[] words = line.split(" ");
                if (words[0].equals("close")) {
                    break;
                }
                try {
                    obey(consumer, words);
                } catch (KafkaException | IllegalStateException error) {
                    responses.println("error " + error.getClass().getSimpleName() + " " + error.getMessage());
                }
                responses.println("done");
            }
        }
        responses.println("done");
    }

    private static void obey(KafkaShareConsumer<String, String> consumer, String[] words) {
        switch (words[0]) {
            case "poll" -> poll(consumer, Integer.parseInt(words[1]), Double.parseDouble(words[2]));
            case "acknowledge" -> consumer.acknowledge(held.get(Long.parseLong(words[1])), AcknowledgeType.valueOf(words[2]));
            case "commit" -> commit(consumer);
            default -> throw new IllegalStateException("no command " + words[0]);
        }
    }

    private static void poll(KafkaShareConsumer<String, String> consumer, int wanted, double seconds) {
        held.clear();
        long deadline = System.nanoTime() + (long) (seconds * 1e9);
        int got = 0;
        do {
            for (var record : consumer.poll(Duration.ofMillis(200))) {
                held.put(record.offset(), record);
                got++;
                responses.println("record " + record.partition() + " " + record.offset() + " "
                        + record.deliveryCount().orElse((short) -1) + " " + record.value());
            }
        } while (got < wanted && System.nanoTime() < deadline);
    }

    private static void commit(KafkaShareConsumer<String, String> consumer) {
        Map<TopicIdPartition, Optional<KafkaException>> results = consumer.commitSync();
        results.forEach((partition, error) -> responses.println("committed " + partition.partition() + " "
                + error.map(one -> one.getClass().getSimpleName()).orElse("well")));
    }
}
