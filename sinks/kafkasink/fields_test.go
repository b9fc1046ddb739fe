package kafkasink

import (
	"slices"
	"testing"
)

// Key and headers can be of the normalized form, of which each record has its own.
func TestNormalizedFields(t *testing.T) {
	records := []string{
		`{"eventType":"violation_admission","enforcementAction":"deny","resourceNamespace":"shop","resourceName":"a","timestamp":"2026-01-05T11:04:07.5+01:00"}`,
		`{"decision_id":"1","path":"authz/allow","result":true}`,
		`{"event_type":"violation","msg":"","process":"admission","constraint_action":"warn","resource_namespace":"cart"}`,
		`{"decision":"deny"}`,
	}
	b := startBrokers(t, 1)
	send(t, openSink(t, b.ListenAddrs(), func(c *Config) {
		c.Key = []string{"normalized.resource.namespace", "resourceName"}
		c.Headers = []Header{{Name: "engine", Field: "normalized.engine"}, {Name: "when", Field: "normalized.when"}}
	}), batch(1, records...))
	want := []string{"shop/a gatekeeper 2026-01-05T10:04:07.5Z", " opa (none)", "cart/ gatekeeper (none)", " (none) (none)"} // nothing is known of the last
	var got []string
	for _, m := range b.heldBy(t, testTopic, 0) {
		got = append(got, string(m.Key)+" "+header(m, "engine")+" "+header(m, "when"))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A filter sees the last of several members with one name, and so does a key.
func TestFieldThatStandsTwice(t *testing.T) {
	for path, want := range map[string]string{"a": "last", "b.c": "1"} {
		got, found := appendField(nil, []byte(`{"a":"first","b":{"c":0},"a":"last","b":{"c":1}}`), path)
		if !found || string(got) != want {
			t.Errorf("%s: got %q, %v, want %q", path, got, found, want)
		}
	}
	if got, found := appendField(nil, []byte(`{"b":{"c":0},"b":{}}`), "b.c"); found {
		t.Errorf("got %q of a member that is not the last, want nothing", got)
	}
}
