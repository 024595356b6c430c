import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Share consumers of Kafka's own client at work; the figures as JSON in a line.
 *
 * <p>Each case needs a group of its own that starts at the earliest record of a topic that is full already.
 */
public final class ShareBench {
    private static final Duration POLL = Duration.ofSeconds(1);
    /** Of the records, so that neither joining nor the first seconds of a JVM count. */
    private static final double WARM_UP = 0.2;

    private final String bootstrap;
    private final String topic;
    private final String group;
    private final long records;

    private ShareBench(String bootstrap, String topic, String group, long records) {
        this.bootstrap = bootstrap;
        this.topic = topic;
        this.group = group;
        this.records = records;
    }

    /** Arguments: case, bootstrap servers, topic, group, records, members. */
    public static void main(String[] arguments) throws InterruptedException {
        var bench = new ShareBench(arguments[1], arguments[2], arguments[3], Long.parseLong(arguments[4]));
        System.out.println(switch (arguments[0]) {
            case "steady" -> bench.steady(Integer.parseInt(arguments[5]));
            case "commit" -> bench.commit();
            case "single" -> bench.single();
            default -> throw new IllegalArgumentException(arguments[0]);
        });
    }

    /** Members that poll as fast as they can, each poll accepting what the one before returned. */
    private String steady(int members) throws InterruptedException {
        var count = new AtomicLong();
        var begun = new AtomicLong();
        var ended = new AtomicLong();
        long first = (long) (records * WARM_UP);
        var left = new CountDownLatch(members);
        for (int member = 0; member < members; member++) {
            new Thread(() -> {
                try (var consumer = consumer(Map.of())) {
                    while (count.get() < records) {
                        int polled = consumer.poll(POLL).count();
                        long before = count.getAndAdd(polled);
                        if (before < first && before + polled >= first) {
                            begun.set(System.nanoTime());
                        }
                        if (before < records && before + polled >= records) {
                            ended.set(System.nanoTime());
                        }
                    }
                } finally {
                    left.countDown();
                }
            }).start();
        }
        left.await();
        return rate(records - first, ended.get() - begun.get());
    }

    /** One member that accepts all of a poll and waits until that is confirmed: how long that takes. */
    private String commit() {
        List<Long> times = new ArrayList<>();
        try (var consumer = consumer(Map.of())) {
            for (long count = 0; count < records;) {
                int polled = consumer.poll(POLL).count();
                long before = System.nanoTime();
                consumer.commitSync();
                if (polled > 0) {
                    times.add(System.nanoTime() - before);
                    count += polled;
                }
            }
        }
        long[] sorted = times.stream().skip((long) (times.size() * WARM_UP)).mapToLong(t -> t).sorted().toArray();
        return "{\"p50\": %.3f, \"p99\": %.3f}".formatted(percentile(sorted, 0.5), percentile(sorted, 0.99));
    }

    /** One member that takes a record, accepts it, waits until that is confirmed, takes the next. */
    private String single() {
        try (var consumer = consumer(Map.of("share.acquire.mode", "record_limit", "max.poll.records", "1"))) {
            long first = (long) (records * WARM_UP);
            long begun = 0;
            for (long count = 0; count < records;) {
                if (count >= first && begun == 0) {
                    begun = System.nanoTime();
                }
                count += consumer.poll(POLL).count();
                consumer.commitSync();
            }
            return rate(records - first, System.nanoTime() - begun);
        }
    }

    private KafkaShareConsumer<byte[], byte[]> consumer(Map<String, Object> special) {
        Map<String, Object> config = new HashMap<>(special);
        config.put("bootstrap.servers", bootstrap);
        config.put("group.id", group);
        var consumer = new KafkaShareConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.subscribe(List.of(topic));
        return consumer;
    }

    private static String rate(long count, long nanoseconds) {
        return "{\"rate\": %.1f}".formatted(count * 1e9 / nanoseconds);
    }

    private static double percentile(long[] sorted, double share) {
        return sorted[Math.min((int) (sorted.length * share), sorted.length - 1)] / 1e6;
    }
}
