package encoding

import (
	"encoding/json"
	"net/url"
	"testing"
	"time"
)

func TestCloudEvents(t *testing.T) {
	b := batch(`{"a":1.10}`, `{"a":2}`)
	b.Items[1].Producer, b.Items[1].Late = "pod-a/1", "Replayed"
	wantBody(t, mustNew(t, cloudEventsName, Config{}), b,
		`[{"specversion":"1.0","id":"`+queue+`-41","source":"docket/webhook","type":"dev.docket.decision","time":"2026-01-05T10:04:07.123456789Z",`+
			`"docketsource":"webhook","datacontenttype":"application/json","data":{"a":1.10}},`+
			`{"specversion":"1.0","id":"`+queue+`-42","source":"docket/webhook","type":"dev.docket.decision","time":"2026-01-05T10:04:07.123456789Z",`+
			`"docketsource":"webhook","docketproducer":"pod-a/1","docketlate":"Replayed","datacontenttype":"application/json","data":{"a":2}}]`)

	c := CloudEvents{Type: `com.example."d"`, Source: "https://example.com/a"}
	wantBody(t, mustNew(t, cloudEventsName, Config{CloudEvents: &c}), batch(`{}`),
		`[{"specversion":"1.0","id":"`+queue+`-41","source":"https://example.com/a","type":"com.example.\"d\"","time":"2026-01-05T10:04:07.123456789Z",`+
			`"docketsource":"webhook","datacontenttype":"application/json","data":{}}]`)
}

// What CloudEvents 1.0 asks of every event.
func TestCloudEventsAreWellFormed(t *testing.T) {
	b := many(3)
	b.Items[1].Received = received.In(time.FixedZone("", 3600))
	b.Items[2].Received = received.Truncate(time.Second)
	var events []map[string]any
	if err := json.Unmarshal([]byte(body(t, mustNew(t, cloudEventsName, Config{}), b)), &events); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for i, event := range events {
		for _, required := range []string{"id", "source", "specversion", "type"} {
			if text, ok := event[required].(string); !ok || text == "" {
				t.Errorf("event %d: got %s = %v, want a string", i, required, event[required])
			}
		}
		if _, err := url.Parse(event["source"].(string)); err != nil {
			t.Errorf("event %d: the source is no URI reference: %v", i, err)
		}
		if at, err := time.Parse(time.RFC3339Nano, event["time"].(string)); err != nil || !at.Equal(b.Items[i].Received) || at.Location() != time.UTC {
			t.Errorf("event %d: got the time %v (%v), want %v in UTC", i, at, err, b.Items[i].Received)
		}
		for name := range event {
			for _, c := range name { // attribute names: lower-case letters and digits
				if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
					t.Errorf("event %d: got the attribute %q, which the specification does not allow", i, name)
				}
			}
		}
		seen[event["id"].(string)] = true
	}
	if len(seen) != 3 {
		t.Errorf("got the ids %v, want three", seen)
	}
}
