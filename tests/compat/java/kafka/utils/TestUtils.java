package kafka.utils;

import org.apache.kafka.server.metrics.KafkaYammerMetrics;

/** The one method that the tests of the share consumer use of this helper in Kafka's core tests. */
public final class TestUtils {
    private TestUtils() {
    }

    /** Removes all meters. */
    public static void clearYammerMetrics() {
        var registry = KafkaYammerMetrics.defaultRegistry();
        registry.allMetrics().keySet().forEach(registry::removeMetric);
    }
}
