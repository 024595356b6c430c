package sharebroker.compat;

import com.yammer.metrics.core.Meter;
import com.yammer.metrics.core.MetricName;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ShareConsumer;
import org.apache.kafka.server.metrics.KafkaYammerMetrics;

/**
 * The broker's meter of renewed records, which four tests read in their own process: kept from what the consumers
 * of a test were asked to renew and took.
 */
final class RenewMeter {
    private static final MetricName NAME = new MetricName(
        "kafka.server",
        "ShareGroupMetrics",
        "RecordAcknowledgementsPerSec",
        "ackType.Renew",
        "kafka.server:type=ShareGroupMetrics,name=RecordAcknowledgementsPerSec,ackType=Renew");

    private Meter meter;

    void register() {
        meter = KafkaYammerMetrics.defaultRegistry().newMeter(NAME, "records", TimeUnit.SECONDS);
    }

    /** The same consumer, its renewals counted. */
    @SuppressWarnings("unchecked")
    <K, V> ShareConsumer<K, V> watching(ShareConsumer<K, V> consumer) {
        return (ShareConsumer<K, V>) Proxy.newProxyInstance(
            ShareConsumer.class.getClassLoader(),
            new Class<?>[] {ShareConsumer.class},
            (self, method, arguments) -> {
                try {
                    Object result = method.invoke(consumer, arguments);
                    if (method.getName().equals("acknowledge") && renews(arguments)) {
                        meter.mark();
                    }
                    return result;
                } catch (InvocationTargetException e) {
                    throw e.getCause();
                }
            });
    }

    private static boolean renews(Object[] arguments) {
        return arguments[arguments.length - 1] == AcknowledgeType.RENEW;
    }
}
