package sharebroker.compat;

import java.util.List;
import java.util.Objects;
import java.util.stream.Stream;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.junit.ClusterTestExtensions;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.Extension;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;
import org.junit.jupiter.api.extension.TestTemplateInvocationContext;

/**
 * In place of Kafka's extension: the same cases with the same properties, and the same watch for leaked threads,
 * but the cluster of each is a {@link StandIn}.
 */
public final class StandInExtension extends ClusterTestExtensions {
    @Override
    public Stream<TestTemplateInvocationContext> provideTestTemplateInvocationContexts(ExtensionContext context) {
        String method = context.getRequiredTestMethod().getName();
        return super.provideTestTemplateInvocationContexts(context).map(theirs -> new Case(method, config(theirs)));
    }

    /** What Kafka made of the annotations; its cluster is built later, so here never. */
    private static ClusterConfig config(TestTemplateInvocationContext theirs) {
        return theirs.getAdditionalExtensions().stream()
            .filter(ParameterResolver.class::isInstance)
            .map(resolver -> (ClusterInstance) ((ParameterResolver) resolver).resolveParameter(null, null))
            .filter(Objects::nonNull)
            .findFirst()
            .orElseThrow()
            .config();
    }

    private record Case(String method, ClusterConfig config) implements TestTemplateInvocationContext {
        @Override
        public String getDisplayName(int index) {
            return index == 1 ? method : method + "[" + index + "]";
        }

        @Override
        public List<Extension> getAdditionalExtensions() {
            var cluster = new StandIn(Worker.servers(), config);
            return List.of(
                (BeforeEachCallback) context -> cluster.start(),
                (AfterEachCallback) context -> cluster.stop(),
                new Resolver(cluster));
        }
    }

    private record Resolver(StandIn cluster) implements ParameterResolver {
        @Override
        public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
            return parameter.getParameter().getType() == ClusterInstance.class;
        }

        @Override
        public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
            return cluster;
        }
    }
}
