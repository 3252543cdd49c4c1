import io.pravega.client.BatchClientFactory;
import io.pravega.client.ClientConfig;
import io.pravega.client.EventStreamClientFactory;
import io.pravega.client.admin.ReaderGroupManager;
import io.pravega.client.batch.SegmentIterator;
import io.pravega.client.batch.SegmentRange;
import io.pravega.client.stream.EventRead;
import io.pravega.client.stream.EventStreamReader;
import io.pravega.client.stream.EventStreamWriter;
import io.pravega.client.stream.EventWriterConfig;
import io.pravega.client.stream.ReaderConfig;
import io.pravega.client.stream.ReaderGroupConfig;
import io.pravega.client.stream.Stream;
import io.pravega.client.stream.StreamCut;
import io.pravega.client.stream.impl.UTF8StringSerializer;
import java.net.URI;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;

/**
 * Writes to the stream app in the scope logs, by key, and reads all of it with a reader group and with the batch client. The stream has
 * segments besides that no key leads to, each with one event.
 */
class Added {
    private static final UTF8StringSerializer TEXT = new UTF8StringSerializer();
    private static final int EVENTS = 22;
    private static final long PATIENCE_MS = 20_000;

    public static void main(String[] arguments) throws Exception {
        ClientConfig config = ClientConfig.builder().controllerURI(URI.create(arguments[0])).build();
        try (EventStreamClientFactory events = EventStreamClientFactory.withScope("logs", config);
             ReaderGroupManager groups = ReaderGroupManager.withScope("logs", config);
             BatchClientFactory batch = BatchClientFactory.withScope("logs", config)) {
            try (EventStreamWriter<String> writer = events.createEventWriter("app", TEXT, EventWriterConfig.builder().build())) {
                for (int key = 0; key < 20; key++) {
                    writer.writeEvent("key " + key, "written " + key).get();
                }
            }
            groups.createReaderGroup("readers", ReaderGroupConfig.builder().stream(Stream.of("logs", "app")).groupRefreshTimeMillis(500).build());
            List<String> read = new ArrayList<>();
            try (EventStreamReader<String> reader = events.createReader("only", "readers", TEXT, ReaderConfig.builder().build())) {
                long until = System.currentTimeMillis() + PATIENCE_MS;
                while (read.size() < EVENTS && System.currentTimeMillis() < until) {
                    EventRead<String> event = reader.readNextEvent(500);
                    if (event.getEvent() != null) {
                        read.add(event.getEvent());
                    }
                }
            }
            told("group", read);

            List<String> found = new ArrayList<>();
            Iterator<SegmentRange> ranges = batch.getSegments(Stream.of("logs", "app"), StreamCut.UNBOUNDED, StreamCut.UNBOUNDED).getIterator();
            while (ranges.hasNext()) {
                try (SegmentIterator<String> segment = batch.readSegment(ranges.next(), TEXT)) {
                    segment.forEachRemaining(found::add);
                }
            }
            told("batch", found);
        }
    }

    private static void told(String step, List<String> found) {
        Collections.sort(found);
        System.out.println(step + ": " + String.join(", ", found));
    }
}
