import io.grpc.StatusRuntimeException;
import io.pravega.client.BatchClientFactory;
import io.pravega.client.ClientConfig;
import io.pravega.client.EventStreamClientFactory;
import io.pravega.client.admin.StreamManager;
import io.pravega.client.batch.SegmentIterator;
import io.pravega.client.batch.SegmentRange;
import io.pravega.client.stream.EventStreamWriter;
import io.pravega.client.stream.EventWriterConfig;
import io.pravega.client.stream.ScalingPolicy;
import io.pravega.client.stream.Stream;
import io.pravega.client.stream.StreamConfiguration;
import io.pravega.client.stream.StreamCut;
import io.pravega.client.stream.impl.UTF8StringSerializer;
import java.net.URI;
import java.util.Iterator;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/**
 * Tries with Pravega's own Java client what its login may not allow, at the stream logs/app of the controller whose address is the
 * one argument. Prints a line "step: what came of it" for each: a result, or why it was refused.
 */
class Stranger {
    private static final String SCOPE = "logs";
    private static final String STREAM = "app";
    private static final long PATIENCE_SECONDS = 20;
    private static final UTF8StringSerializer TEXT = new UTF8StringSerializer();

    private final ClientConfig config;

    private Stranger(URI controller) {
        config = ClientConfig.builder().controllerURI(controller).build();
    }

    public static void main(String[] arguments) {
        new Stranger(URI.create(arguments[0])).tryAll();
        System.out.flush();
        Runtime.getRuntime().halt(0); // its threads would take seconds to end, or never
    }

    private void tryAll() {
        StreamConfiguration shape = StreamConfiguration.builder().scalingPolicy(ScalingPolicy.fixed(1)).build();
        StreamManager streams = StreamManager.create(config);
        tried("scope", () -> streams.createScope("another"));
        tried("stream", () -> streams.createStream(SCOPE, "another", shape));
        tried("read", this::read);
        tried("write", this::write);
        tried("seal", () -> streams.sealStream(SCOPE, STREAM));
    }

    private int read() throws Exception {
        int events = 0;
        try (BatchClientFactory batches = BatchClientFactory.withScope(SCOPE, config)) {
            Iterator<SegmentRange> ranges =
                batches.getSegments(Stream.of(SCOPE, STREAM), StreamCut.UNBOUNDED, StreamCut.UNBOUNDED).getIterator();
            while (ranges.hasNext()) {
                SegmentIterator<String> found = batches.readSegment(ranges.next(), TEXT);
                for (; found.hasNext(); events++) {
                    found.next();
                }
                found.close();
            }
        }
        return events;
    }

    private String write() throws Exception {
        EventWriterConfig settings = EventWriterConfig.builder().retryAttempts(3).build();
        try (EventStreamClientFactory events = EventStreamClientFactory.withScope(SCOPE, config);
             EventStreamWriter<String> writer = events.createEventWriter(STREAM, TEXT, settings)) {
            writer.writeEvent("key", "written").get();
            return "written";
        }
    }

    private static void tried(String step, Callable<Object> act) {
        String outcome;
        try {
            outcome = String.valueOf(CompletableFuture.supplyAsync(() -> called(act)).get(PATIENCE_SECONDS, TimeUnit.SECONDS));
        } catch (Exception failure) {
            outcome = why(failure);
        }
        System.out.println(step + ": " + outcome);
    }

    private static Object called(Callable<Object> act) {
        try {
            return act.call();
        } catch (Exception failure) {
            throw new IllegalStateException(failure);
        }
    }

    /** What the controller said, or the innermost exception. */
    private static String why(Throwable failure) {
        Throwable cause = failure;
        while (cause.getCause() != null && !(cause instanceof StatusRuntimeException)) {
            cause = cause.getCause();
        }
        return cause instanceof StatusRuntimeException
            ? ((StatusRuntimeException) cause).getStatus().getCode().name() : cause.getClass().getSimpleName();
    }
}
