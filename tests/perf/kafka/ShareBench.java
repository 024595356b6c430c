import java.io.FileReader;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Share consumers of Kafka's own client on a topic that already has its records.
 *
 * <p>Writes a line every 200 ms: {@code sample COUNT NANOSECONDS [MICROSECONDS,...]}, the records done so far, the
 * clock, and how long each commitSync since the last line took. A new group reads the topic from its beginning when
 * one has read nearly all of it; {@code pass} announces that. Works until its standard input ends.
 */
public final class ShareBench {
    private static final Duration POLL = Duration.ofSeconds(1);
    private static final long SAMPLE_MILLISECONDS = 200;
    /** Of the topic's records, so that no member waits for its last ones. */
    private static final double PASS = 0.9;

    private final String mode;
    private final Properties client;
    private final String topic;
    private final String group;
    private final long records;
    private final int members;

    private final AtomicLong count = new AtomicLong();
    private final ConcurrentLinkedQueue<Long> commits = new ConcurrentLinkedQueue<>();
    /** Count at which this pass over the topic ends. */
    private volatile long end;
    private volatile boolean ended;

    private ShareBench(String mode, Properties client, String topic, String group, long records, int members) {
        this.mode = mode;
        this.client = client;
        this.topic = topic;
        this.group = group;
        this.records = records;
        this.members = members;
    }

    /** Arguments: mode, bootstrap servers, topic, group prefix, records of the topic, members, [client properties]. */
    public static void main(String[] arguments) throws Exception {
        Thread.setDefaultUncaughtExceptionHandler((thread, failure) -> {
            failure.printStackTrace();
            Runtime.getRuntime().halt(1);
        });
        var client = new Properties();
        if (arguments.length > 6) {
            try (var reader = new FileReader(arguments[6])) {
                client.load(reader);
            }
        }
        client.put("bootstrap.servers", arguments[1]);
        long records = Long.parseLong(arguments[4]);
        int members = Integer.parseInt(arguments[5]);
        var bench = new ShareBench(arguments[0], client, arguments[2], arguments[3], records, members);
        if (arguments[0].equals("groups")) {
            for (int number = 0; number < members; number++) {
                bench.startAtEarliest(number);
            }
            return;
        }
        daemon(bench::sample);
        daemon(bench::untilInputEnds);
        bench.run();
        Runtime.getRuntime().halt(0);
    }

    private void run() throws Exception {
        for (int number = 0; !ended; number++) {
            startAtEarliest(number);
            System.out.println("pass");
            end = count.get() + (long) (records * PASS);
            String name = group + "-" + number;
            List<Thread> threads = new ArrayList<>();
            for (int member = 0; member < members; member++) {
                var thread = new Thread(() -> work(name));
                thread.start();
                threads.add(thread);
            }
            for (var thread : threads) {
                thread.join();
            }
        }
    }

    private void work(String name) {
        try (var consumer = consumer(name)) {
            while (!ended && count.get() < end) {
                ConsumerRecords<byte[], byte[]> polled = consumer.poll(POLL);
                switch (mode) {
                    case "implicit" -> { } // the next poll accepts them
                    case "explicit" -> {
                        for (ConsumerRecord<byte[], byte[]> record : polled) {
                            consumer.acknowledge(record);
                        }
                        consumer.commitAsync();
                    }
                    case "commit", "single" -> {
                        long before = System.nanoTime();
                        consumer.commitSync();
                        if (mode.equals("commit") && !polled.isEmpty()) {
                            commits.add((System.nanoTime() - before) / 1000);
                        }
                    }
                    default -> throw new IllegalArgumentException(mode);
                }
                count.addAndGet(polled.count());
            }
        }
    }

    private KafkaShareConsumer<byte[], byte[]> consumer(String name) {
        var config = new Properties();
        config.putAll(client);
        config.put("group.id", name);
        if (mode.equals("explicit")) {
            config.put("share.acknowledgement.mode", "explicit");
        }
        if (mode.equals("single")) {
            config.put("share.acquire.mode", "record_limit");
            config.put("max.poll.records", "1");
        }
        var consumer = new KafkaShareConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.subscribe(List.of(topic));
        return consumer;
    }

    private void startAtEarliest(int number) throws Exception {
        var resource = new ConfigResource(ConfigResource.Type.GROUP, group + "-" + number);
        var entry = new ConfigEntry("share.auto.offset.reset", "earliest");
        try (var admin = Admin.create(client)) {
            var change = List.of(new AlterConfigOp(entry, AlterConfigOp.OpType.SET));
            admin.incrementalAlterConfigs(Map.of(resource, change)).all().get();
        }
    }

    private void sample() throws InterruptedException {
        while (true) {
            Thread.sleep(SAMPLE_MILLISECONDS);
            if (count.get() >= end) {
                continue; // between two passes
            }
            var took = new ArrayList<Long>();
            for (Long one = commits.poll(); one != null; one = commits.poll()) {
                took.add(one);
            }
            String times = took.stream().map(String::valueOf).collect(Collectors.joining(","));
            System.out.println("sample " + count.get() + " " + System.nanoTime() + " " + times);
        }
    }

    private void untilInputEnds() throws IOException {
        while (System.in.read() >= 0) { }
        ended = true;
    }

    private interface Task {
        void run() throws Exception;
    }

    private static void daemon(Task task) {
        var thread = new Thread(() -> {
            try {
                task.run();
            } catch (Exception failure) {
                throw new IllegalStateException(failure);
            }
        });
        thread.setDaemon(true);
        thread.start();
    }
}
