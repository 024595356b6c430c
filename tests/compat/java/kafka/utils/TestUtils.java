package kafka.utils;

import org.apache.kafka.server.metrics.KafkaYammerMetrics;

/** The one method that the tests use of a class of Kafka's core tests, which are not published for other builds. */
public final class TestUtils {
    private TestUtils() {
    }

    /** Removes all meters. */
    public static void clearYammerMetrics() {
        var registry = KafkaYammerMetrics.defaultRegistry();
        registry.allMetrics().keySet().forEach(registry::removeMetric);
    }
}
