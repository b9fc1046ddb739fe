package kafka

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/docket-export/docket/test/dockettest"
	"github.com/docket-export/docket/test/kafkatest"
)

// permission is one of those that ExactlyOnce needs.
type permission struct {
	name   string
	permit func(cluster *kafkatest.Secure, user, topic string)
	want   string // in the last error of a sink that lacks it
	unseen bool   // by docket check --connect
}

var permissions = []permission{
	{
		name: "write-topic", want: "permit this client to write to the topic",
		permit: func(c *kafkatest.Secure, user, topic string) { c.Permit(user, topic, kadm.OpWrite) },
	},
	{
		name: "read-topic", want: `permit this client to read from topic "read-topic" too`, unseen: true,
		permit: func(c *kafkatest.Secure, user, topic string) { c.Permit(user, topic, kadm.OpRead) },
	},
	{
		name: "read-group", want: "permit this client to read groups that begin with docket-",
		permit: func(c *kafkatest.Secure, user, _ string) { c.PermitGroups(user, "docket-", kadm.OpRead) },
	},
	{
		name: "write-transactional-id", want: "permit this client to write and describe transactional ids that begin with docket-",
		permit: func(c *kafkatest.Secure, user, _ string) { c.PermitTransactions(user, "docket-", kadm.OpWrite) },
	},
}

// TestPermissions delivers with ExactlyOnce to a broker that has given every permission but
// one. The state of the sink and, but for one, docket check --connect say which, and when it is given
// everything is delivered, without a restart.
func TestPermissions(t *testing.T) {
	cluster := kafkatest.StartSecure(t)
	for i, missing := range permissions {
		t.Run(missing.name, func(t *testing.T) {
			user, topic := missing.name, missing.name
			cluster.CreateTopic(topic, 3, 1)
			cluster.SetPassword(user, scramPassword)
			for j, p := range permissions {
				if i != j {
					p.permit(cluster, user, topic)
				}
			}
			a := sasl(t, cluster, "SCRAM-SHA-512", user, scramPassword)
			a.lines = append(a.lines, "delivery: ExactlyOnce")
			d := startSecure(t, a, topic)
			awaitMistake(t, d, mistake{reason: "Misconfigured", want: missing.want})
			if !missing.unseen {
				checkConnect(t, d, missing.want)
			}
			missing.permit(cluster, user, topic)
			checkSecure(t, d, cluster, topic)
			checkConnect(t, d, "")
		})
	}
}

// checkConnect runs docket check --connect, which must fail with a text, empty for none.
func checkConnect(t *testing.T, d *dockettest.Docket, want string) {
	t.Helper()
	said, code := d.Try("check", "--connect", "-f", d.ConfigFile())
	t.Logf("docket check --connect says, with code %d: %s", code, said)
	if failed := want != ""; failed != (code != 0) || !strings.Contains(string(said), want) {
		t.Errorf("docket check --connect ends with code %d, want a failure %t and a text with %q", code, failed, want)
	}
}
