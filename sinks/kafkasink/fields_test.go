package kafkasink

import (
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/sinks"
)

// Key, topic and headers can be of the normalized form, of which each record has its own.
func TestNormalizedFields(t *testing.T) {
	records := []string{
		`{"eventType":"violation_admission","enforcementAction":"deny","resourceNamespace":"shop","resourceName":"a","timestamp":"2026-01-05T11:04:07.5+01:00"}`,
		`{"decision_id":"1","path":"authz/allow","result":true}`,
		`{"event_type":"violation","msg":"","process":"admission","constraint_action":"warn","resource_namespace":"cart"}`,
		`{"decision":"deny"}`,
	}
	b := startBrokers(t, 1, kfake.SeedTopics(1, "allow", "deny", "rest"))
	change := func(fallback string) func(c *Config) {
		return func(c *Config) {
			c.Topic, c.TopicFrom = "", &TopicFrom{Field: "normalized.decision", Allow: []string{"allow", "deny"}, Default: fallback}
			c.Key = []string{"normalized.resource.namespace", "resourceName"}
			c.Headers = []Header{{Name: "engine", Field: "normalized.engine"}, {Name: "when", Field: "normalized.when"}}
		}
	}
	send(t, openSink(t, b.ListenAddrs(), change("rest")), batch(1, records...))
	for topic, want := range map[string][]string{
		"deny":  {"shop/a gatekeeper 2026-01-05T10:04:07.5Z"},
		"allow": {" opa (none)"},
		"rest":  {"cart/ gatekeeper (none)", " (none) (none)"}, // nothing is known of the last
	} {
		var got []string
		for _, m := range b.heldBy(t, topic, 0) {
			got = append(got, string(m.Key)+" "+header(m, "engine")+" "+header(m, "when"))
		}
		if !slices.Equal(got, want) {
			t.Errorf("topic %s: got %q, want %q", topic, got, want)
		}
	}

	f := sendFails(t, openSink(t, b.ListenAddrs(), change("")), batch(1, records...), sinks.Rejected, "kafka.topicFrom")
	if want := []int{2, 3}; !slices.Equal(f.Items, want) {
		t.Fatalf("Items = %v, want %v", f.Items, want)
	}
	for i, want := range map[int]string{2: `names the topic "warn"`, 3: "has no field normalized.decision"} {
		if got := f.Answer(i).Text; !strings.Contains(got, want) {
			t.Errorf("the answer to item %d is %q, want it to contain %q", i, got, want)
		}
	}
}

func TestCheckNormalizedField(t *testing.T) {
	for _, field := range decision.NormalizedFields() {
		if err := checkField(decision.NormalizedPrefix + field); err != nil {
			t.Errorf("%s: got %v, want nil", field, err)
		}
	}
	for _, path := range []string{"normalized.", "normalized.resource", "normalized.resource.nam", "normalized.a*"} {
		if err := checkField(path); err == nil || !strings.HasPrefix(err.Error(), "must be a field of the normalized form, such as normalized.resource.namespace") {
			t.Errorf("%s: got %v, want an error that names one", path, err)
		}
	}
	c := defaultConfig()
	c.Partitioner, c.PartitionField, c.Brokers, c.Topic = Manual, "normalized.id", []string{"a:1"}, "a"
	if p := c.Validate(); len(p) != 1 || !strings.Contains(p.Err().Error(), "partitionField: must be a field of the record") {
		t.Errorf("got %v, want one problem of partitionField", p)
	}
}
