package sharebroker.compat;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.util.Map;
import java.util.TreeMap;

/**
 * Asks the program that started this one to start and stop servers: a JSON object in a line, answered by one.
 * The same two streams carry the order to run a test, and its results.
 */
final class Servers {
    static final ObjectMapper JSON = new ObjectMapper();

    private final BufferedReader in;
    private final PrintStream out;

    Servers(BufferedReader in, PrintStream out) {
        this.in = in;
        this.out = out;
    }

    /** Starts a cluster in fresh folders; host:port by broker id. */
    Map<Integer, String> start(int brokers, Map<String, String> properties, Map<String, Short> features) {
        ObjectNode question = question("start").put("brokers", brokers);
        question.set("properties", JSON.valueToTree(properties));
        question.set("features", JSON.valueToTree(features));
        Map<Integer, String> addresses = new TreeMap<>();
        ask(question).get("addresses").properties()
            .forEach(entry -> addresses.put(Integer.valueOf(entry.getKey()), entry.getValue().asText()));
        return addresses;
    }

    void stop() {
        ask(question("stop"));
    }

    /** Returns when the broker's process is gone. */
    void stopBroker(int id) {
        ask(question("stop-broker").put("id", id));
    }

    /** Starts a stopped broker again: the same data, the same address. */
    void startBroker(int id) {
        ask(question("start-broker").put("id", id));
    }

    /** Returns the next order; null at the end of the input. */
    JsonNode next() throws IOException {
        String line = in.readLine();
        return line == null ? null : JSON.readTree(line);
    }

    void send(ObjectNode message) {
        out.println(message);
    }

    private static ObjectNode question(String what) {
        return JSON.createObjectNode().put("ask", what);
    }

    private synchronized JsonNode ask(ObjectNode question) {
        send(question);
        JsonNode answer;
        try {
            answer = next();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        if (answer == null || answer.has("error")) {
            throw new IllegalStateException(answer == null ? "no answer" : answer.get("error").asText());
        }
        return answer;
    }
}
