import io.pravega.shared.security.crypto.StrongPasswordProcessor;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;
import javassist.ClassPool;
import javassist.CtClass;
import javassist.CtMethod;

/**
 * Runs a single-process Pravega, everything in memory, that nobody outside this machine can reach, and ends with its standard input.
 * Arguments: a directory of its own, then the ports of the controller, the segment store and ZooKeeper, then further properties.
 */
class Server {
    private static final String GRPC_BUILDER = "io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder";

    public static void main(String[] arguments) throws Exception {
        Path directory = Path.of(arguments[0]);
        Properties properties = new Properties();
        properties.setProperty("singlenode.controller.rpc.port", arguments[1]);
        properties.setProperty("singlenode.segmentStore.port", arguments[2]);
        properties.setProperty("singlenode.zk.port", arguments[3]);
        properties.setProperty("singlenode.controller.rest.enable", "false");
        properties.setProperty("singlenode.admin.gateway.enable", "false");
        properties.setProperty("pravegaservice.service.listener.host.nameOrIp", "127.0.0.1");
        properties.setProperty("pravegaservice.service.published.host.nameOrIp", "127.0.0.1");
        properties.setProperty("pravegaservice.cache.size.max", Long.toString(256L << 20));
        for (int at = 4; at < arguments.length; at++) {
            String[] pair = arguments[at].split("=", 2);
            properties.setProperty(pair[0], pair[1]);
        }
        String user = properties.getProperty("singlenode.security.auth.credentials.username");
        if (user != null) {
            Path accounts = directory.resolve("accounts");
            String password = properties.getProperty("singlenode.security.auth.credentials.pwd");
            String kept = StrongPasswordProcessor.builder().build().encryptPassword(password);
            Files.writeString(accounts, user + ":" + kept + ":prn::*,READ_UPDATE;\n");
            properties.setProperty("singlenode.security.auth.pwdAuthHandler.accountsDb.location", accounts.toString());
        }
        Path file = directory.resolve("server.properties");
        try (var out = Files.newOutputStream(file)) {
            properties.store(out, null);
        }
        System.setProperty("singlenode.configurationFile", file.toString());
        System.setProperty("java.io.tmpdir", directory.toString());
        keepToLoopback();
        Thread watch = new Thread(Server::endWithStandardInput, "standard-input");
        watch.setDaemon(true);
        watch.start();
        Class.forName("io.pravega.local.LocalPravegaEmulator").getMethod("main", String[].class).invoke(null, (Object) new String[0]);
    }

    /** The controller has no property for the address that it listens on: it names a port, which means all addresses. */
    private static void keepToLoopback() throws Exception {
        ClassPool classes = ClassPool.getDefault();
        CtClass builder = classes.get(GRPC_BUILDER);
        CtMethod named = builder.getDeclaredMethod("forPort", new CtClass[] {CtClass.intType});
        named.setBody("{ return forAddress(new java.net.InetSocketAddress(\"127.0.0.1\", $1)); }");
        builder.toClass(ClassLoader.getSystemClassLoader(), null);
    }

    private static void endWithStandardInput() {
        try {
            System.in.transferTo(java.io.OutputStream.nullOutputStream());
        } catch (java.io.IOException gone) {
            // ended all the same
        }
        Runtime.getRuntime().halt(0);
    }
}
