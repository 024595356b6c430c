import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.share.ShareCoordinatorRecordSerde;
import org.apache.kafka.coordinator.share.generated.ShareSnapshotKey;
import org.apache.kafka.coordinator.share.generated.ShareSnapshotValue;
import org.apache.kafka.coordinator.share.generated.ShareUpdateKey;
import org.apache.kafka.coordinator.share.generated.ShareUpdateValue;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * Prints what Apache Kafka itself writes for a few records of share state: name, key, value, in hex ("-" for a tombstone).
 * `vectors.txt` is its output with the jars of Kafka 4.3.1 (kafka-share-coordinator, its dependencies) on the class path:
 * java -cp "$CLASSPATH" ShareStateVectors.java > vectors.txt
 */
public class ShareStateVectors {
    private static final Uuid TOPIC = Uuid.fromString("AQIDBAUGBwgJCgsMDQ4PEA");

    public static void main(String[] args) {
        print("first checkpoint", snapshotKey("g", 0), new ShareSnapshotValue()
            .setSnapshotEpoch(0).setStateEpoch(1).setLeaderEpoch(0).setStartOffset(-1)
            .setCreateTimestamp(1700000000000L).setWriteTimestamp(1700000000000L));
        print("cold checkpoint", snapshotKey("Aufträge:eu", 2147483647), new ShareSnapshotValue()
            .setSnapshotEpoch(2147483647).setStateEpoch(7).setLeaderEpoch(9).setStartOffset(1L << 40)
            .setDeliveryCompleteCount(300)
            .setCreateTimestamp(1700000000000L).setWriteTimestamp(1700000300000L)
            .setStateBatches(List.of(
                snapshotBatch(1L << 40, (1L << 40) + 9, 0, 1),
                snapshotBatch((1L << 40) + 10, Long.MAX_VALUE, 4, 32767))));
        ShareSnapshotValue wide = new ShareSnapshotValue()
            .setSnapshotEpoch(3).setStateEpoch(1).setLeaderEpoch(1).setStartOffset(0).setDeliveryCompleteCount(0)
            .setCreateTimestamp(1).setWriteTimestamp(1);
        for (int i = 0; i < 130; i++) wide.stateBatches().add(snapshotBatch(2 * i, 2 * i, 2, 1));
        print("checkpoint of 130 batches", snapshotKey("g", 0), wide);
        print("delta", updateKey("g", 3), new ShareUpdateValue()
            .setSnapshotEpoch(5).setLeaderEpoch(-1).setStartOffset(-1).setDeliveryCompleteCount(4)
            .setStateBatches(List.of(updateBatch(100, 109, 2, 1))));
        print("delta of nothing but an epoch", updateKey("g", 3), new ShareUpdateValue()
            .setSnapshotEpoch(5).setLeaderEpoch(8).setStartOffset(110));
        print("checkpoint tombstone", snapshotKey("g", 3), null);
        print("delta tombstone", updateKey("g", 3), null);
    }

    private static ShareSnapshotKey snapshotKey(String group, int partition) {
        return new ShareSnapshotKey().setGroupId(group).setTopicId(TOPIC).setPartition(partition);
    }

    private static ShareUpdateKey updateKey(String group, int partition) {
        return new ShareUpdateKey().setGroupId(group).setTopicId(TOPIC).setPartition(partition);
    }

    private static ShareSnapshotValue.StateBatch snapshotBatch(long first, long last, int state, int count) {
        return new ShareSnapshotValue.StateBatch().setFirstOffset(first).setLastOffset(last)
            .setDeliveryState((byte) state).setDeliveryCount((short) count);
    }

    private static ShareUpdateValue.StateBatch updateBatch(long first, long last, int state, int count) {
        return new ShareUpdateValue.StateBatch().setFirstOffset(first).setLastOffset(last)
            .setDeliveryState((byte) state).setDeliveryCount((short) count);
    }

    private static void print(String name, ApiMessage key, ApiMessage value) {
        ShareCoordinatorRecordSerde serde = new ShareCoordinatorRecordSerde();
        CoordinatorRecord record = value == null
            ? CoordinatorRecord.tombstone(key)
            : CoordinatorRecord.record(key, new ApiMessageAndVersion(value, (short) 0));
        HexFormat hex = HexFormat.of();
        byte[] bytes = serde.serializeValue(record);
        System.out.println(String.join(" | ", name, hex.formatHex(serde.serializeKey(record)),
            bytes == null ? "-" : hex.formatHex(bytes)));
    }
}
