package once_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/docket-export/docket/decision/once"
)

// The saved form is what consumers have on their disks: it may not change without
// a new version.
func TestSavedForm(t *testing.T) {
	f := once.Filter{LateMemory: 2}
	for _, d := range []once.Delivery{
		{Queue: queueB, Seq: 1 << 63},
		{Queue: queueA, Seq: 3},
		{Queue: queueA, Seq: 9, Late: once.Redriven},
		{Queue: queueA, Seq: 2, Late: once.Replayed},
		{Queue: queueB, Seq: 5},
		{},
	} {
		f.Take(d)
	}
	const want = `{"version":1,"queues":[{"id":"` + queueA + `","seq":3,"late":[9,2]},{"id":"` + queueB + `","seq":9223372036854775808}]}`
	if got := save(t, f); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := save(t, once.Filter{}); got != `{"version":1,"queues":[]}` {
		t.Errorf("got %s for a filter that has seen nothing", got)
	}
	// A Filter is part of what a consumer saves, by value or not.
	whole, err := json.Marshal(struct{ Offset, Once any }{7, &f})
	if err != nil || string(whole) != `{"Offset":7,"Once":`+want+`}` {
		t.Errorf("got %s, %v inside another object", whole, err)
	}
}

func TestRestore(t *testing.T) {
	const saved = `{"version":1,"queues":[{"id":"` + queueA + `","seq":3,"late":[9,2]},{"id":"` + queueB + `","seq":7}]}`
	f := once.Filter{LateMemory: 2, MaxQueues: 2}
	f.Take(once.Delivery{Queue: queue(1), Seq: 50}) // of a transaction that failed
	restore(t, &f, saved)
	if got := save(t, f); got != saved {
		t.Errorf("got  %s\nwant %s", got, saved)
	}
	for _, s := range []struct {
		d    once.Delivery
		want bool
	}{
		{once.Delivery{Queue: queueA, Seq: 3}, false},
		{once.Delivery{Queue: queueB, Seq: 7}, false},
		{once.Delivery{Queue: queueA, Seq: 9, Late: once.Redriven}, false},
		{once.Delivery{Queue: queueA, Seq: 4}, true},
		{once.Delivery{Queue: queue(1), Seq: 50}, true}, // forgets B, the bound holds
		{once.Delivery{Queue: queueB, Seq: 7}, true},
	} {
		if got := f.Take(s.d); got != s.want {
			t.Errorf("%+v: got %t, want %t", s.d, got, s.want)
		}
	}
}

func TestBrokenState(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"nothing":            {``, "unexpected end of JSON input"},
		"half":               {`{"version":1,"queues":[`, "unexpected end of JSON input"},
		"null":               {`null`, "the version is missing"},
		"another document":   {`{"offset":7}`, "the version is missing"},
		"an array":           {`[]`, "cannot unmarshal array"},
		"a newer version":    {`{"version":2,"filters":{}}`, "version 2 is not supported, only version 1: use the program that saved the state, or a newer one"},
		"no queues":          {`{"version":1}`, "the queues are missing"},
		"something more":     {`{"version":1,"queues":[],"more":1}`, `unknown field "more"`},
		"more in a queue":    {`{"version":1,"queues":[{"id":"` + queueA + `","seq":1,"offset":1}]}`, `unknown field "offset"`},
		"a negative seq":     {`{"version":1,"queues":[{"id":"` + queueA + `","seq":-1}]}`, "cannot unmarshal number -1"},
		"a seq too large":    {`{"version":1,"queues":[{"id":"` + queueA + `","seq":18446744073709551616}]}`, "cannot unmarshal number"},
		"no queue's id":      {`{"version":1,"queues":[{"id":"` + queueA + `","seq":1},{"seq":1}]}`, `queues[1].id is "", want a UUID`},
		"a queue twice":      {`{"version":1,"queues":[{"id":"` + queueA + `","seq":1},{"id":"` + queueA + `","seq":2}]}`, "queue " + queueA + " occurs twice"},
		"something follows":  {`{"version":1,"queues":[]}{}`, "after top-level value"},
		"a long false queue": {`{"version":1,"queues":[{"id":"` + strings.Repeat("x", 1000) + `"}]}`, `"..., want a UUID`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var f once.Filter
			f.Take(once.Delivery{Queue: queueA, Seq: 5})
			before := save(t, f)
			err := f.UnmarshalJSON([]byte(tt.text))
			if err == nil || !strings.HasPrefix(err.Error(), "read the state of a filter: ") || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
			if after := save(t, f); after != before {
				t.Errorf("the filter was changed from %s to %s", before, after)
			}
		})
	}
}

func restore(t testing.TB, f *once.Filter, text string) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), f); err != nil {
		t.Fatal(err)
	}
}

// Whatever is read as a state is one: it can be saved and read again, and a
// filter that has it works.
func FuzzState(f *testing.F) {
	for _, text := range []string{
		`{"version":1,"queues":[]}`,
		`{"version":1,"queues":[{"id":"` + queueA + `","seq":3,"late":[9,2]},{"id":"` + queueB + `","seq":18446744073709551615}]}`,
		`{"version":1,"queues":[{"id":"` + queueA + `","seq":0,"late":[]}]}`,
		`{"Version":1,"QUEUES":[],"version":1}`,
		`{"version":2}`, `null`, `{"version":1,"queues":null}`, `{"version":1.0}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		filter := once.Filter{LateMemory: 3, MaxQueues: 2}
		if err := filter.UnmarshalJSON(text); err != nil {
			if got := save(t, filter); got != `{"version":1,"queues":[]}` {
				t.Fatalf("state %q is refused with %v and leaves %s", text, err, got)
			}
			return
		}
		first := save(t, filter)
		again := once.Filter{LateMemory: 3, MaxQueues: 2}
		restore(t, &again, first)
		if second := save(t, again); second != first {
			t.Fatalf("state %q is saved as %s and, read again, as %s", text, first, second)
		}
		for _, d := range []once.Delivery{
			{Queue: queueA, Seq: 4}, {Queue: queueB, Seq: 1, Late: once.Redriven}, {Queue: queue(1), Seq: 1},
			{Queue: queueA, Seq: 4}, {Queue: queueB, Seq: 1, Late: once.Redriven},
		} {
			if a, b := filter.Take(d), again.Take(d); a != b {
				t.Fatalf("state %q: %+v is taken %t before and %t after saving", text, d, a, b)
			}
		}
		if a, b := save(t, filter), save(t, again); a != b {
			t.Fatalf("state %q: the same deliveries give %s and %s", text, a, b)
		}
	})
}
