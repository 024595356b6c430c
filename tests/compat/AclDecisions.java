// Prints the decisions of Kafka's StandardAuthorizer. Each line of standard input is one of, with tabs between fields:
//   S superUsers allowEveryone                            begins a new set of ACLs
//   A type name pattern principal host operation permission  adds an ACL
//   Q principal host operation type name                  prints whether the operation is allowed: 1 or 0
//   T principal host operation type                       the same for some resource of the type

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Proxy;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

public class AclDecisions {
    public static void main(String[] arguments) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        var authorizer = new StandardAuthorizer();
        authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
        authorizer.completeInitialLoad();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] field = line.split("\t", -1);
            switch (field[0]) {
                case "S" -> begin(authorizer, field[1], field[2]);
                case "A" -> authorizer.addAcl(Uuid.randomUuid(), acl(field));
                case "Q" -> {
                    var pattern = new ResourcePattern(type(field[4]), field[5], PatternType.LITERAL);
                    var action = new Action(operation(field[3]), pattern, 1, false, false);
                    var results = authorizer.authorize(context(field[1], field[2]), List.of(action));
                    out.println(results.get(0) == AuthorizationResult.ALLOWED ? 1 : 0);
                }
                default -> {
                    var result = authorizer.authorizeByResourceType(
                            context(field[1], field[2]), operation(field[3]), type(field[4]));
                    out.println(result == AuthorizationResult.ALLOWED ? 1 : 0);
                }
            }
        }
        out.flush();
    }

    private static void begin(StandardAuthorizer authorizer, String superUsers, String allowEveryone) {
        authorizer.configure(Map.of(
                "node.id", "1",
                StandardAuthorizer.SUPER_USERS_CONFIG, superUsers,
                StandardAuthorizer.ALLOW_EVERYONE_IF_NO_ACL_IS_FOUND_CONFIG, allowEveryone));
        authorizer.loadSnapshot(Map.of());
    }

    private static StandardAcl acl(String[] field) {
        return new StandardAcl(
                type(field[1]),
                field[2],
                PatternType.fromCode(Byte.parseByte(field[3])),
                field[4],
                field[5],
                operation(field[6]),
                AclPermissionType.fromCode(Byte.parseByte(field[7])));
    }

    private static ResourceType type(String code) {
        return ResourceType.fromCode(Byte.parseByte(code));
    }

    private static AclOperation operation(String code) {
        return AclOperation.fromCode(Byte.parseByte(code));
    }

    private static AuthorizableRequestContext context(String principal, String host) throws Exception {
        var user = new KafkaPrincipal("User", principal);
        var address = InetAddress.getByName(host);
        return (AuthorizableRequestContext) Proxy.newProxyInstance(
                AclDecisions.class.getClassLoader(),
                new Class<?>[] {AuthorizableRequestContext.class},
                (proxy, method, none) -> switch (method.getName()) {
                    case "principal" -> user;
                    case "clientAddress" -> address;
                    case "requestType", "requestVersion", "correlationId" -> 0;
                    default -> null;
                });
    }
}
