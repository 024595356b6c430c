import java.util.HexFormat;
import java.util.OptionalInt;
import java.util.OptionalLong;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordHelpers;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.OffsetAndMetadata;

/**
 * Prints what Apache Kafka itself writes for a few committed offsets: name, key, value, in hex ("-" for a tombstone).
 * `vectors.txt` is its output with the jars of Kafka 4.3.1 (kafka-group-coordinator, its dependencies) on the class path:
 * java -cp "$CLASSPATH" OffsetCommitVectors.java > vectors.txt
 */
public class OffsetCommitVectors {
    private static final Uuid TOPIC = Uuid.fromString("AQIDBAUGBwgJCgsMDQ4PEA");

    public static void main(String[] args) {
        print("plain", commit("g", "a", 0, 7, OptionalInt.empty(), ""));
        print("with everything", commit("Aufträge:eu", "orders.eu", 2147483647, Long.MAX_VALUE, OptionalInt.of(9), "von Hand"));
        print("long metadata", commit("g", "a", 3, 0, OptionalInt.of(0), "m".repeat(300)));
        print("tombstone", GroupCoordinatorRecordHelpers.newOffsetCommitTombstoneRecord("g", "a", 3));
    }

    private static CoordinatorRecord commit(
        String group, String topic, int partition, long offset, OptionalInt leaderEpoch, String metadata
    ) {
        return GroupCoordinatorRecordHelpers.newOffsetCommitRecord(group, topic, partition,
            new OffsetAndMetadata(offset, leaderEpoch, metadata, 1700000000000L, OptionalLong.empty(), TOPIC));
    }

    private static void print(String name, CoordinatorRecord record) {
        GroupCoordinatorRecordSerde serde = new GroupCoordinatorRecordSerde();
        HexFormat hex = HexFormat.of();
        byte[] bytes = serde.serializeValue(record);
        System.out.println(String.join(" | ", name, hex.formatHex(serde.serializeKey(record)),
            bytes == null ? "-" : hex.formatHex(bytes)));
    }
}
