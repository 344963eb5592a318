import java.io.FileWriter;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;

/** Allocates and drops memory, then reports what the collector did and which settings it had. */
public class Churn {
    public static void main(String[] arguments) throws Exception {
        byte[][] kept = new byte[4000][];
        long sum = 0;
        for (int i = 0; i < 200000; i++) {
            kept[i % kept.length] = new byte[500 + i % 1500];
            byte[] other = kept[(int) ((i * 7L) % kept.length)];
            sum += other == null ? 0 : other.length;
        }
        System.out.println(sum);
        long count = 0;
        StringBuilder names = new StringBuilder();
        for (GarbageCollectorMXBean collector : ManagementFactory.getGarbageCollectorMXBeans()) {
            count += Math.max(0, collector.getCollectionCount());
            names.append(collector.getName());
        }
        System.err.println(names);
        try (FileWriter out = new FileWriter(System.getenv("ASHLAR_REPORT_FILE"), true)) {
            out.write(String.format("{\"gc_count\": %d, \"limit_mib\": %d, \"is_serial\": %d, \"is_g1\": %d}\n", count,
                Runtime.getRuntime().maxMemory() >> 20, names.indexOf("MarkSweepCompact") >= 0 ? 1 : 0, names.indexOf("G1") >= 0 ? 1 : 0));
        }
    }
}
