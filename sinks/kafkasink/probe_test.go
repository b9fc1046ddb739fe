package kafkasink

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sinks"
)

func probe(t *testing.T, addresses []string, change ...func(*Config)) error {
	t.Helper()
	c := defaultConfig()
	c.Brokers, c.Topic, c.Timeout = addresses, testTopic, config.Duration(ample)
	for _, f := range change {
		f(c)
	}
	if err := c.Validate().Err(); err != nil {
		t.Fatalf("Validate = %v, want nothing wrong", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), await.Left(t))
	defer cancel()
	var prober sinks.Prober = c
	return prober.Probe(ctx, sinks.Env{Name: "bus", Log: slog.New(slog.DiscardHandler)})
}

func probeFails(t *testing.T, err error, kind sinks.Kind, texts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("Probe = nil, want a failure of kind %v", kind)
	}
	if got := sinks.FailureOf(err).Kind; got != kind {
		t.Errorf("Probe failed as %v (%v), want %v", got, err, kind)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("Probe failed with %q, want it to contain %q", err, text)
		}
	}
}

// A probe asks every broker that leads a partition, and leaves nothing behind.
func TestProbe(t *testing.T) {
	const partitions = 6
	b := startBrokers(t, partitions, kfake.NumBrokers(3))
	if err := probe(t, b.ListenAddrs()); err != nil {
		t.Fatalf("Probe = %v, want nil", err)
	}
	leaders := map[int32]bool{}
	for p := range int32(partitions) {
		leaders[b.LeaderFor(testTopic, p)] = true
	}
	if got := b.requestSizes(); !slices.Equal(got, make([]int, len(leaders))) {
		t.Errorf("the brokers were sent requests of %v bytes of records, want an empty one for each of %d leaders", got, len(leaders))
	}
	if got, want := b.stored(t), make([]int, partitions); !slices.Equal(got, want) {
		t.Errorf("the partitions hold %v messages, want none", got)
	}
}

// The answers of brokers to a request without records, and what they mean.
func TestProbeAnswers(t *testing.T) {
	b := startBrokers(t, 1)
	for code, want := range map[int16]string{
		0: "", 2: "", 87: "",
		6:  "Transient: Not Leader For Partition",
		29: "Misconfigured: permit this client to write to the topic",
		76: "Misconfigured: choose another kafka.compression",
	} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			b.setAnswer(always(code))
			err := probe(t, b.ListenAddrs())
			kind, text, _ := strings.Cut(want, ": ")
			if want == "" && err != nil {
				t.Errorf("Probe = %v, want nil", err)
			} else if want != "" {
				if err == nil || sinks.FailureOf(err).Kind.String() != kind || !strings.Contains(err.Error(), text) {
					t.Errorf("Probe = %v, want %s", err, want)
				}
			}
		})
	}
}

// A probe of transactions names the permission that is missing, and takes nothing from a
// docket that writes.
func TestProbeOfTransactions(t *testing.T) {
	file, _ := secretFile(t, password)
	all := []struct {
		acl  kfake.ACL
		want string // what is said when it is missing
	}{
		{allow(testTopic, kmsg.ACLOperationWrite), "permit this client to write to the topic"},
		{allowPrefix(kmsg.ACLResourceTypeGroup, kmsg.ACLOperationRead), "permit this client to read groups that begin with docket-"},
		{allowPrefix(kmsg.ACLResourceTypeTransactionalId, kmsg.ACLOperationWrite), "permit this client to write and describe transactional ids that begin with docket-"},
	}
	exactlyOnce := func(c *Config) { c.Delivery = ExactlyOnce }
	for missing := range len(all) + 1 {
		t.Run(fmt.Sprint(missing), func(t *testing.T) {
			want, acls := "", []kfake.ACL{}
			for i, one := range all {
				if i == missing {
					want = one.want
				} else {
					acls = append(acls, one.acl)
				}
			}
			b := startBrokers(t, 1, kfake.EnableSASL(), kfake.EnableACLs(), kfake.User("PLAIN", "docket", password, acls...))
			b.ControlKey(int16(kmsg.InitProducerID), func(kmsg.Request) (kmsg.Response, error, bool) {
				t.Error("a probe asks for a producer, and may take it from a docket that writes")
				return nil, nil, false
			})
			err := probe(t, b.ListenAddrs(), withSASL(Plain, "docket", file), exactlyOnce)
			if want != "" {
				probeFails(t, err, sinks.Misconfigured, want)
			} else if err != nil {
				t.Errorf("Probe = %v, want nil", err)
			}
		})
	}
}

// The name of a broker that cannot be looked up may be one of the configuration,
// or one that another broker has told.
func TestUnknownHost(t *testing.T) {
	s := &sink{config: defaultConfig()}
	err := s.failf(&net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "kafka-9", IsNotFound: true}}, "write")
	probeFails(t, err, sinks.Transient, "lookup kafka-9: no such host", "check kafka.brokers, and advertised.listeners")
}

// allowPrefix permits operation on all that docket names.
func allowPrefix(resource kmsg.ACLResourceType, operation kmsg.ACLOperation) kfake.ACL {
	return kfake.ACL{Resource: resource, Name: "docket-", Pattern: kmsg.ACLResourcePatternTypePrefixed, Operation: operation, Allow: true}
}

// allow is the permission of an operation on a topic.
func allow(topic string, operation kmsg.ACLOperation) kfake.ACL {
	return kfake.ACL{
		Resource: kmsg.ACLResourceTypeTopic, Name: topic, Pattern: kmsg.ACLResourcePatternTypeLiteral,
		Operation: operation, Allow: true,
	}
}
