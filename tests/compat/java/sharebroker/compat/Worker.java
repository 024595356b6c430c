package sharebroker.compat;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.test.api.ClusterTest;
import org.apache.kafka.common.test.api.ClusterTests;
import org.apache.kafka.common.test.junit.ClusterTestExtensions;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.discovery.DiscoverySelectors;
import org.junit.platform.launcher.LauncherDiscoveryRequest;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

/** Runs the test methods of one class that standard input names, and reports the outcome of each case. */
public final class Worker {
    private static Servers servers;

    private Worker() {
    }

    /** The program that started us. */
    static Servers servers() {
        return servers;
    }

    /** Argument: the test class. */
    public static void main(String[] arguments) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err); // what tests print must not come between our lines
        servers = new Servers(in, out);
        Class<?> tests = Class.forName(arguments[0]);
        servers.send(Servers.JSON.createObjectNode().set("methods", methods(tests)));
        for (JsonNode order = servers.next(); order != null; order = servers.next()) {
            servers.send(Servers.JSON.createObjectNode().set("cases", run(tests, order.get("run").asText())));
        }
        System.exit(0); // whatever threads a failed test left behind
    }

    private static ArrayNode methods(Class<?> tests) {
        ArrayNode names = Servers.JSON.createArrayNode();
        Arrays.stream(tests.getMethods())
            .filter(m -> m.isAnnotationPresent(ClusterTest.class) || m.isAnnotationPresent(ClusterTests.class))
            .map(m -> m.getName())
            .sorted()
            .forEach(names::add);
        return names;
    }

    private static ArrayNode run(Class<?> tests, String method) {
        LauncherDiscoveryRequest request = LauncherDiscoveryRequestBuilder.request()
            .selectors(DiscoverySelectors.selectMethod(tests, method))
            .configurationParameter("junit.jupiter.extensions.autodetection.enabled", "true")
            .configurationParameter(
                "junit.jupiter.extensions.autodetection.exclude", ClusterTestExtensions.class.getName())
            .build();
        var listener = new Listener();
        LauncherFactory.create().execute(request, listener);
        return listener.cases;
    }

    /** Keeps how each case ended; a container only when it failed, for its cases did not run then. */
    private static final class Listener implements TestExecutionListener {
        final ArrayNode cases = Servers.JSON.createArrayNode();
        private final Map<TestIdentifier, Long> started = new HashMap<>();

        @Override
        public void executionStarted(TestIdentifier identifier) {
            started.put(identifier, System.nanoTime());
        }

        @Override
        public void executionSkipped(TestIdentifier identifier, String reason) {
            cases.addObject().put("name", identifier.getDisplayName()).put("outcome", "skipped").put("error", reason);
        }

        @Override
        public void executionFinished(TestIdentifier identifier, TestExecutionResult result) {
            boolean passed = result.getStatus() == TestExecutionResult.Status.SUCCESSFUL;
            if (passed && !identifier.isTest()) {
                return;
            }
            ObjectNode found = cases.addObject()
                .put("name", identifier.getDisplayName())
                .put("outcome", passed ? "passed" : "failed")
                .put("seconds", (System.nanoTime() - started.get(identifier)) / 1e9);
            result.getThrowable().ifPresent(error -> found.put("error", inShort(error)).put("trace", trace(error)));
        }

        /** The error and what caused it. */
        private static String inShort(Throwable error) {
            return error.getCause() == null ? error.toString() : error + " <- " + inShort(error.getCause());
        }

        private static String trace(Throwable error) {
            var text = new StringWriter();
            error.printStackTrace(new PrintWriter(text));
            return text.toString();
        }
    }
}
