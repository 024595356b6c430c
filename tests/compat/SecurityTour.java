import java.io.FileInputStream;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UserScramCredentialDeletion;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.quota.ClientQuotaFilterComponent;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;

/** Manages ACLs, quotas and users with Kafka's Admin; prints a line for each result that a test checks. */
public final class SecurityTour {
    private final Admin admin;
    private final String name;

    private SecurityTour(Admin admin, String name) {
        this.admin = admin;
        this.name = name;
    }

    /** Arguments: a file with the properties of the client, and a unique name. */
    public static void main(String[] arguments) throws Exception {
        var properties = new Properties();
        try (var file = new FileInputStream(arguments[0])) {
            properties.load(file);
        }
        try (Admin admin = Admin.create(properties)) {
            var tour = new SecurityTour(admin, arguments[1]);
            tour.acls();
            tour.quotas();
            tour.users();
        } catch (ExecutionException failure) {
            print("failed", failure.getCause().getClass().getSimpleName());
        }
    }

    private void acls() throws Exception {
        var read = new AclBinding(
            new ResourcePattern(ResourceType.TOPIC, name, PatternType.PREFIXED),
            new AccessControlEntry("User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW));
        var write = new AclBinding(
            new ResourcePattern(ResourceType.GROUP, name, PatternType.LITERAL),
            new AccessControlEntry("User:bob", "10.0.0.7", AclOperation.ALL, AclPermissionType.DENY));
        admin.createAcls(List.of(read, write)).all().get();
        var topics = new AclBindingFilter(
            new ResourcePatternFilter(ResourceType.TOPIC, name + "-1", PatternType.MATCH), AccessControlEntryFilter.ANY);
        print("matching", admin.describeAcls(topics).values().get().contains(read));
        print("group", admin.describeAcls(write.toFilter()).values().get().equals(List.of(write)));
        print("deleted", admin.deleteAcls(List.of(read.toFilter(), write.toFilter())).all().get().size());
        print("remaining", admin.describeAcls(read.toFilter()).values().get().size());
    }

    private void quotas() throws Exception {
        var entity = new ClientQuotaEntity(Map.of(ClientQuotaEntity.USER, name, ClientQuotaEntity.CLIENT_ID, "reports"));
        alter(entity, 1024.0);
        var user = ClientQuotaFilterComponent.ofEntity(ClientQuotaEntity.USER, name);
        var found = admin.describeClientQuotas(ClientQuotaFilter.contains(List.of(user))).entities();
        print("quota", found.get().get(entity));
        alter(entity, null);
        found = admin.describeClientQuotas(ClientQuotaFilter.contains(List.of(user))).entities();
        print("quotas", found.get().size());
    }

    private void alter(ClientQuotaEntity entity, Double value) throws Exception {
        var change = new ClientQuotaAlteration.Op("producer_byte_rate", value);
        admin.alterClientQuotas(List.of(new ClientQuotaAlteration(entity, List.of(change)))).all().get();
    }

    private void users() throws Exception {
        var credential = new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096);
        admin.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion(name, credential, "a secret"))).all().get();
        print("user", admin.describeUserScramCredentials(List.of(name)).description(name).get().credentialInfos().equals(List.of(credential)));
        admin.alterUserScramCredentials(List.of(new UserScramCredentialDeletion(name, ScramMechanism.SCRAM_SHA_512))).all().get();
        print("users", admin.describeUserScramCredentials().users().get().contains(name));
    }

    private static void print(String what, Object value) {
        System.out.println(what + ": " + value);
    }
}
