import io.pravega.client.BatchClientFactory;
import io.pravega.client.ByteStreamClientFactory;
import io.pravega.client.ClientConfig;
import io.pravega.client.EventStreamClientFactory;
import io.pravega.client.KeyValueTableFactory;
import io.pravega.client.admin.KeyValueTableManager;
import io.pravega.client.admin.ReaderGroupManager;
import io.pravega.client.admin.StreamManager;
import io.pravega.client.batch.SegmentIterator;
import io.pravega.client.batch.SegmentRange;
import io.pravega.client.control.impl.ControllerImpl;
import io.pravega.client.control.impl.ControllerImplConfig;
import io.pravega.client.stream.Checkpoint;
import io.pravega.client.stream.EventRead;
import io.pravega.client.stream.EventStreamReader;
import io.pravega.client.stream.EventStreamWriter;
import io.pravega.client.stream.EventWriterConfig;
import io.pravega.client.stream.ReaderConfig;
import io.pravega.client.stream.ReaderGroup;
import io.pravega.client.stream.ReaderGroupConfig;
import io.pravega.client.stream.ReinitializationRequiredException;
import io.pravega.client.stream.ScalingPolicy;
import io.pravega.client.stream.Stream;
import io.pravega.client.stream.StreamConfiguration;
import io.pravega.client.stream.StreamCut;
import io.pravega.client.stream.TimeWindow;
import io.pravega.client.stream.Transaction;
import io.pravega.client.stream.TransactionalEventStreamWriter;
import io.pravega.client.stream.impl.UTF8StringSerializer;
import io.pravega.client.tables.Insert;
import io.pravega.client.tables.KeyValueTable;
import io.pravega.client.tables.KeyValueTableClientConfiguration;
import io.pravega.client.tables.KeyValueTableConfiguration;
import io.pravega.client.tables.Put;
import io.pravega.client.tables.Remove;
import io.pravega.client.tables.TableEntry;
import io.pravega.client.tables.TableKey;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

/**
 * Does with Pravega's own Java client what its users do, at the controller whose address is the first argument; the second one, if
 * there is one, is a PEM file of the authority to be trusted.
 * Prints a line "step: what came of it" for each step; what these must be is for its caller to say.
 */
class Client {
    private static final String SCOPE = "java";
    private static final String STREAM = "events";
    private static final String GROUP = "readers";
    private static final int KEYS = 4;
    private static final long PATIENCE_MS = 20_000;
    private static final UTF8StringSerializer TEXT = new UTF8StringSerializer();
    private static final ReaderConfig READER = ReaderConfig.builder().build();
    private static final EventWriterConfig WRITER = EventWriterConfig.builder().build();

    private final ClientConfig config;
    private final StreamManager streams;
    private final EventStreamClientFactory events;
    private final ReaderGroupManager groups;
    private final ControllerImpl controller;
    private final ScheduledExecutorService timer = Executors.newScheduledThreadPool(2);

    private Client(String[] arguments) {
        ClientConfig.ClientConfigBuilder settings = ClientConfig.builder().controllerURI(URI.create(arguments[0]));
        config = (arguments.length > 1 ? settings.trustStore(arguments[1]) : settings).build();
        streams = StreamManager.create(config);
        told("scope", streams.createScope(SCOPE), streams.createScope(SCOPE), streams.checkScopeExists(SCOPE));
        events = EventStreamClientFactory.withScope(SCOPE, config);
        groups = ReaderGroupManager.withScope(SCOPE, config);
        this.controller = new ControllerImpl(ControllerImplConfig.builder().clientConfig(config).build(), timer);
    }

    public static void main(String[] arguments) {
        int status = 1;
        try {
            new Client(arguments).doAll();
            status = 0;
        } catch (Throwable failure) {
            failure.printStackTrace();
        }
        System.out.flush();
        Runtime.getRuntime().halt(status); // its threads would take seconds to end, or never
    }

    private void doAll() throws Exception {
        streamsAreMade();
        timesAreNoted();
        groupsRead();
        groupsAreReset();
        streamsAreScaled();
        bytesAreWritten();
        transactionsEnd();
        largeEventsAreWhole();
        tablesAreKept();
        timesAreTold();
        streamsEnd();
    }

    private void streamsAreMade() {
        StreamConfiguration made = StreamConfiguration.builder().scalingPolicy(ScalingPolicy.fixed(2)).tag("one").build();
        told("stream", streams.createStream(SCOPE, STREAM, made), streams.createStream(SCOPE, STREAM, made));
        StreamConfiguration updated = StreamConfiguration.builder().scalingPolicy(ScalingPolicy.fixed(2)).tag("two").build();
        told("update", streams.updateStream(SCOPE, STREAM, updated), streams.getStreamTags(SCOPE, STREAM));
        told("tagged", names(streams.listStreams(SCOPE, "two")), names(streams.listStreams(SCOPE, "one")));
    }

    /** Two writers note how far they are. What readers learn of it takes a controller some seconds: `timesAreTold`. */
    private void timesAreNoted() throws Exception {
        streams.createStream(SCOPE, "times", StreamConfiguration.builder().scalingPolicy(ScalingPolicy.fixed(1)).build());
        try (EventStreamWriter<String> one = events.createEventWriter("one", "times", TEXT, WRITER);
             EventStreamWriter<String> two = events.createEventWriter("two", "times", TEXT, WRITER)) {
            one.writeEvent("key", "1 0").get();
            two.writeEvent("key", "2 0").get();
            two.noteTime(200);
            one.noteTime(100);
            two.writeEvent("key", "2 1").get();
        }
        long until = System.currentTimeMillis() + PATIENCE_MS;
        boolean unknown = true;
        while (unknown && System.currentTimeMillis() < until) { // the writer did not wait until its time was noted
            unknown = refused(() -> controller.removeWriter("one", Stream.of(SCOPE, "times")).get());
        }
        told("noted", !unknown, refused(() -> controller.removeWriter("nobody", Stream.of(SCOPE, "times")).get()));
    }

    /** At the end of each stream the window begins with its last watermark; at the beginning of one it ends with the first. */
    private void timesAreTold() throws Exception {
        told("times", timeAtEnd("times", 200));
        told("committed", timeAtEnd("sums", 77));
        groups.createReaderGroup("early", ReaderGroupConfig.builder().stream(Stream.of(SCOPE, "times")).build());
        try (EventStreamReader<String> reader = events.createReader("early", "early", TEXT, READER)) {
            read(reader, new ArrayList<>(), 1);
            long until = System.currentTimeMillis() + PATIENCE_MS;
            TimeWindow window = reader.getCurrentTimeWindow(Stream.of(SCOPE, "times"));
            while (window.getUpperTimeBound() == null && System.currentTimeMillis() < until) {
                Thread.sleep(20);
                window = reader.getCurrentTimeWindow(Stream.of(SCOPE, "times"));
            }
            told("window", window.getLowerTimeBound(), window.getUpperTimeBound());
        }
    }

    private Long timeAtEnd(String name, long wanted) {
        groups.createReaderGroup("times-of-" + name,
            ReaderGroupConfig.builder().stream(Stream.of(SCOPE, name)).groupRefreshTimeMillis(500).build());
        try (EventStreamReader<String> reader = events.createReader("only", "times-of-" + name, TEXT, READER)) {
            long until = System.currentTimeMillis() + PATIENCE_MS;
            Long time = null;
            while ((time == null || time != wanted) && System.currentTimeMillis() < until) {
                next(reader, 100);
                time = reader.getCurrentTimeWindow(Stream.of(SCOPE, name)).getLowerTimeBound();
            }
            return time;
        }
    }

    /** Two readers at once; a checkpoint; one of them leaves, the other reads what it would have. */
    private void groupsRead() throws Exception {
        write(0, 25);
        ReaderGroupConfig asked = ReaderGroupConfig.builder().stream(stream()).disableAutomaticCheckpoints()
            .groupRefreshTimeMillis(500).retentionType(ReaderGroupConfig.StreamDataRetention.MANUAL_RELEASE_AT_USER_STREAMCUT).build();
        told("group", groups.createReaderGroup(GROUP, asked), groups.createReaderGroup(GROUP, asked));
        ReaderGroup group = groups.getReaderGroup(GROUP);
        EventStreamReader<String> first = events.createReader("first", GROUP, TEXT, READER);
        EventStreamReader<String> second = events.createReader("second", GROUP, TEXT, READER);
        List<String> read = Collections.synchronizedList(new ArrayList<>());
        CompletableFuture<Integer> beside = CompletableFuture.supplyAsync(() -> read(second, read, KEYS * 25));
        int own = read(first, read, KEYS * 25);
        told("both", own > 0, beside.get(PATIENCE_MS, TimeUnit.MILLISECONDS) > 0, group.getOnlineReaders().size());
        told("read", byKey(read));
        CompletableFuture<Checkpoint> checkpoint = group.initiateCheckpoint("checkpoint", timer);
        CompletableFuture<Void> other = CompletableFuture.runAsync(() -> passCheckpoint(second, checkpoint));
        passCheckpoint(first, checkpoint);
        other.get(PATIENCE_MS, TimeUnit.MILLISECONDS);
        Map<Stream, StreamCut> cuts = checkpoint.get(PATIENCE_MS, TimeUnit.MILLISECONDS).asImpl().getPositions();
        group.updateRetentionStreamCut(cuts);
        told("checkpoint", cuts.size());
        told("subscribers", controller.listSubscribers(SCOPE, STREAM).get());
        second.close();
        write(25, 50);
        read.clear();
        read(first, read, KEYS * 25);
        told("left", byKey(read));
        first.close();
        group.close();
        told("truncate", streams.truncateStream(SCOPE, STREAM, cuts.get(stream())));
    }

    /** From the stream's new beginning, which is the checkpoint. */
    private void groupsAreReset() throws Exception {
        ReaderGroup group = groups.getReaderGroup(GROUP);
        group.resetReaderGroup(ReaderGroupConfig.builder().stream(stream()).groupRefreshTimeMillis(500).build());
        try (EventStreamReader<String> reader = events.createReader("third", GROUP, TEXT, READER)) {
            List<String> read = new ArrayList<>();
            read(reader, read, KEYS * 25);
            told("reset", byKey(read));
        }
        group.close();
        groups.deleteReaderGroup(GROUP);
    }

    /** Written and read across an epoch that has other segments; then all of it as a batch. */
    private void streamsAreScaled() throws Exception {
        groups.createReaderGroup("scaled", ReaderGroupConfig.builder().stream(stream()) // sealed segments are left at a checkpoint only
            .groupRefreshTimeMillis(500).automaticCheckpointIntervalMillis(1000).build());
        List<String> read = new ArrayList<>();
        try (EventStreamReader<String> reader = events.createReader("fourth", "scaled", TEXT, READER);
             EventStreamWriter<String> writer = events.createEventWriter(STREAM, TEXT, WRITER)) {
            write(writer, 50, 60);
            List<Long> sealed = new ArrayList<>();
            controller.getCurrentSegments(SCOPE, STREAM).get().getSegments().forEach(found -> sealed.add(found.getSegmentId()));
            told("scale", controller.scaleStream(stream(), sealed, Map.of(0.0, 0.3, 0.3, 0.6, 0.6, 1.0), timer).getFuture().get());
            write(writer, 60, 70);
            read(reader, read, KEYS * 45);
        }
        told("scaled", byKey(read));
        List<String> batch = new ArrayList<>();
        try (BatchClientFactory batches = BatchClientFactory.withScope(SCOPE, config)) {
            Iterator<SegmentRange> ranges = batches.getSegments(stream(), StreamCut.UNBOUNDED, StreamCut.UNBOUNDED).getIterator();
            int count = 0;
            for (; ranges.hasNext(); count++) {
                SegmentIterator<String> found = batches.readSegment(ranges.next(), TEXT);
                found.forEachRemaining(batch::add);
                found.close();
            }
            told("batch", count, byKey(batch));
        }
    }

    private void bytesAreWritten() throws Exception {
        streams.createStream(SCOPE, "bytes", StreamConfiguration.builder().scalingPolicy(ScalingPolicy.fixed(1)).build());
        try (ByteStreamClientFactory factory = ByteStreamClientFactory.withScope(SCOPE, config);
             io.pravega.client.byteStream.ByteStreamWriter writer = factory.createByteStreamWriter("bytes");
             io.pravega.client.byteStream.ByteStreamReader reader = factory.createByteStreamReader("bytes")) {
            writer.write("bytes for testing".getBytes(StandardCharsets.UTF_8));
            writer.flush();
            byte[] read = new byte[5];
            int count = reader.read(read);
            writer.truncateDataBefore(6);
            reader.seekToOffset(10);
            byte[] rest = new byte[7];
            reader.read(rest);
            told("bytes", count, new String(read), new String(rest), reader.fetchHeadOffset(), reader.fetchTailOffset());
            writer.closeAndSeal();
            told("end", reader.read());
        }
    }

    private void transactionsEnd() throws Exception {
        streams.createStream(SCOPE, "sums", StreamConfiguration.builder().scalingPolicy(ScalingPolicy.fixed(2)).build());
        try (TransactionalEventStreamWriter<String> writer = events.createTransactionalEventWriter("sums", TEXT, WRITER)) {
            Transaction<String> kept = writer.beginTxn();
            for (int number = 0; number < 5; number++) {
                kept.writeEvent("key", "kept " + number);
            }
            told("open", kept.checkStatus());
            kept.commit(77);
            Transaction<String> dropped = writer.beginTxn();
            dropped.writeEvent("key", "dropped 0");
            dropped.flush();
            dropped.abort();
            told("over", ends(kept), ends(dropped), refused(() -> dropped.writeEvent("key", "late 0")));
            told("completed", streams.listCompletedTransactions(Stream.of(SCOPE, "sums")).size());
        }
        told("transactions", byKey(all("sums", 5)));
    }

    private void largeEventsAreWhole() throws Exception {
        streams.createStream(SCOPE, "large", StreamConfiguration.builder().scalingPolicy(ScalingPolicy.fixed(1)).build());
        EventWriterConfig large = EventWriterConfig.builder().enableLargeEvents(true).build();
        try (EventStreamWriter<String> writer = events.createEventWriter("large", TEXT, large)) {
            writer.writeEvent("before");
            writer.writeEvent("x".repeat(9 << 20)).get();
            writer.writeEvent("after");
            writer.flush();
        }
        List<Integer> sizes = new ArrayList<>();
        all("large", 3).forEach(event -> sizes.add(event.length()));
        told("large", sizes);
    }

    private void tablesAreKept() throws Exception {
        KeyValueTableManager manager = KeyValueTableManager.create(config);
        KeyValueTableConfiguration shape = KeyValueTableConfiguration.builder()
            .partitionCount(2).primaryKeyLength(4).secondaryKeyLength(2).build();
        told("table", manager.createKeyValueTable(SCOPE, "places", shape), manager.createKeyValueTable(SCOPE, "places", shape));
        try (KeyValueTableFactory factory = KeyValueTableFactory.withScope(SCOPE, config);
             KeyValueTable table = factory.forKeyValueTable("places", KeyValueTableClientConfiguration.builder().build())) {
            TableKey one = key("aaaa", "01");
            TableKey two = key("aaaa", "02");
            table.update(Arrays.asList(new Insert(one, bytes("1")), new Insert(two, bytes("2")))).get();
            TableEntry found = table.get(one).get();
            table.update(new Put(one, bytes("3"), found.getVersion())).get();
            told("put", text(found.getValue()), text(table.get(one).get().getValue()),
                refused(() -> table.update(new Put(one, bytes("4"), found.getVersion())).get()));
            List<String> values = new ArrayList<>();
            table.iterator().forPrimaryKey(bytes("aaaa")).entries().forEachRemaining(
                page -> page.getItems().forEach(entry -> values.add(text(entry.getValue()))), timer).get();
            table.update(new Remove(two)).get();
            told("iterate", values, table.exists(two).get());
        }
        List<String> listed = new ArrayList<>();
        manager.listKeyValueTables(SCOPE).forEachRemaining(found -> listed.add(found.getKeyValueTableName()));
        told("tables", listed, manager.deleteKeyValueTable(SCOPE, "places"));
    }

    private void streamsEnd() throws Exception {
        told("seal", streams.sealStream(SCOPE, STREAM), streams.fetchStreamInfo(SCOPE, STREAM).get().isSealed());
        told("sealed", refused(() -> write(70, 71)));
        told("delete", streams.deleteStream(SCOPE, STREAM), streams.checkStreamExists(SCOPE, STREAM));
        told("all", streams.deleteScopeRecursive(SCOPE), streams.checkScopeExists(SCOPE));
    }

    // ------------------------------------------------------------------------------------------------------------------

    private interface Act {
        void run() throws Exception;
    }

    private static Stream stream() {
        return Stream.of(SCOPE, STREAM);
    }

    private void write(int start, int end) {
        try (EventStreamWriter<String> writer = events.createEventWriter(STREAM, TEXT, WRITER)) {
            write(writer, start, end);
        }
    }

    private static void write(EventStreamWriter<String> writer, int start, int end) {
        for (int number = start; number < end; number++) {
            for (int key = 0; key < KEYS; key++) {
                writer.writeEvent("key-" + key, key + " " + number);
            }
        }
        writer.flush();
    }

    /** Adds to what is read already until there are so many; returns how many are its own. */
    private static int read(EventStreamReader<String> reader, List<String> read, int wanted) {
        long until = System.currentTimeMillis() + PATIENCE_MS;
        int own = 0;
        while (read.size() < wanted && System.currentTimeMillis() < until) {
            String event = next(reader, 200).getEvent();
            if (event != null) {
                read.add(event);
                own++;
            }
        }
        return own;
    }

    private static EventRead<String> next(EventStreamReader<String> reader, long patience) {
        try {
            return reader.readNextEvent(patience);
        } catch (ReinitializationRequiredException error) {
            throw new IllegalStateException(error);
        }
    }

    private static void passCheckpoint(EventStreamReader<String> reader, CompletableFuture<Checkpoint> checkpoint) {
        long until = System.currentTimeMillis() + PATIENCE_MS;
        while (!checkpoint.isDone() && System.currentTimeMillis() < until) {
            next(reader, 100);
        }
    }

    private List<String> all(String name, int count) {
        groups.createReaderGroup("of-" + name, ReaderGroupConfig.builder().stream(Stream.of(SCOPE, name)).build());
        List<String> read = new ArrayList<>();
        try (EventStreamReader<String> reader = events.createReader("only", "of-" + name, TEXT, READER)) {
            read(reader, read, count);
        }
        return read;
    }

    private static Transaction.Status ends(Transaction<String> transaction) throws InterruptedException {
        long until = System.currentTimeMillis() + PATIENCE_MS;
        Transaction.Status status = transaction.checkStatus();
        while (status != Transaction.Status.COMMITTED && status != Transaction.Status.ABORTED && System.currentTimeMillis() < until) {
            Thread.sleep(20);
            status = transaction.checkStatus();
        }
        return status;
    }

    private static boolean refused(Act act) {
        try {
            act.run();
            return false;
        } catch (Exception refusal) {
            return true;
        }
    }

    private static TableKey key(String primary, String secondary) {
        return new TableKey(bytes(primary), bytes(secondary));
    }

    private static ByteBuffer bytes(String text) {
        return ByteBuffer.wrap(text.getBytes(StandardCharsets.UTF_8));
    }

    private static String text(ByteBuffer bytes) {
        return StandardCharsets.UTF_8.decode(bytes.duplicate()).toString();
    }

    private static List<String> names(Iterator<Stream> found) {
        List<String> names = new ArrayList<>();
        found.forEachRemaining(stream -> names.add(stream.getStreamName()));
        return names;
    }

    /** "key: numbers" in the order read, one key after another. */
    private static String byKey(List<String> read) {
        Map<String, StringBuilder> numbers = new java.util.TreeMap<>();
        for (String event : new ArrayList<>(read)) {
            String[] parts = event.split(" ");
            numbers.computeIfAbsent(parts[0], key -> new StringBuilder()).append(" ").append(parts[1]);
        }
        List<String> told = new ArrayList<>();
        numbers.forEach((key, found) -> told.add(key + ":" + found));
        return String.join(", ", told);
    }

    private static void told(String step, Object... outcomes) {
        List<String> texts = new ArrayList<>();
        for (Object outcome : outcomes) {
            texts.add(String.valueOf(outcome));
        }
        System.out.println(step + ": " + String.join(" | ", texts));
    }
}
