package kubeauditsource

import (
	"strings"
	"testing"
)

// identityOf is what appendIdentity appends, and whether that is something.
func identityOf(event string) (id string, ok bool) {
	const before = "kept:"
	got := string(appendIdentity([]byte(before), []byte(event)))
	return strings.TrimPrefix(got, before), got != before
}

func TestIdentity(t *testing.T) {
	event := eventOf("create", allowed, created)
	change := func(old, replacement string) string {
		changed := strings.Replace(event, old, replacement, 1)
		if changed == event {
			t.Fatalf("the test changes nothing: %q is not in %s", old, event)
		}
		return changed
	}
	id, ok := identityOf(event)
	if want := "ResponseComplete/2026-01-05T10:04:07.120000Z/6f0c4c3e-0d5b-4a53-9a39-4d1f0a3bb7c1"; id != want || !ok {
		t.Errorf("got %q, %v, want %q", id, ok, want)
	}
	for name, other := range map[string]string{
		"another request":                   change("6f0c", "6f0d"),
		"another stage":                     change("ResponseComplete", "ResponseStarted"),
		"another request under its auditID": change("07.120000Z", "07.120001Z"),
	} {
		if got, ok := identityOf(other); got == id || !ok {
			t.Errorf("%s: got %q, %v, want another than that", name, got, ok)
		}
	}
	for name, test := range map[string]struct {
		event string
		want  string // empty: it has no identity
	}{
		"no time":             {change(`,"stageTimestamp":"2026-01-05T10:04:07.120000Z"`, ""), "ResponseComplete//6f0c4c3e-0d5b-4a53-9a39-4d1f0a3bb7c1"},
		"time is a number":    {change(`"2026-01-05T10:04:07.120000Z"`, "7"), "ResponseComplete//6f0c4c3e-0d5b-4a53-9a39-4d1f0a3bb7c1"},
		"no auditID":          {change(`"auditID":"6f0c4c3e-0d5b-4a53-9a39-4d1f0a3bb7c1",`, ""), ""},
		"empty auditID":       {change("6f0c4c3e-0d5b-4a53-9a39-4d1f0a3bb7c1", ""), ""},
		"auditID is a number": {change(`"6f0c4c3e-0d5b-4a53-9a39-4d1f0a3bb7c1"`, "6"), ""},
		"no stage":            {change(`"stage":"ResponseComplete",`, ""), ""},
		"stage is an object":  {change(`"ResponseComplete"`, "{}"), ""},
		"a list":              {`["auditID","stage"]`, ""},
		"a text":              {`"auditID"`, ""},
		"nothing":             {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got, ok := identityOf(test.event); got != test.want || ok != (test.want != "") {
				t.Errorf("got %q, %v, want %q", got, ok, test.want)
			}
		})
	}
}

func TestIdentityOfSample(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range sampleEvents(t) {
		id, ok := identityOf(string(e))
		if !ok || seen[id] {
			t.Errorf("got %q, %v, want an identity of its own for\n%s", id, ok, e)
		}
		seen[id] = true
	}
}
