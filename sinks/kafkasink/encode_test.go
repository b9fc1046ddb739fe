package kafkasink

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/sinks"
)

func TestKey(t *testing.T) {
	for name, test := range map[string]struct {
		paths  []string
		record string
		want   string // "(none)" for no key
	}{
		"no paths":      {nil, `{"a":"x"}`, "(none)"},
		"one":           {[]string{"a"}, `{"a":"x"}`, "x"},
		"two":           {[]string{"a", "b"}, `{"b":"y","a":"x"}`, "x/y"},
		"nested":        {[]string{"o.kind", "o.name"}, `{"o":{"kind":"Pod","name":"p"}}`, "Pod/p"},
		"first missing": {[]string{"a", "b"}, `{"b":"y"}`, "/y"},
		"last missing":  {[]string{"a", "b"}, `{"a":"x"}`, "x/"},
		"null":          {[]string{"a", "b"}, `{"a":null,"b":"y"}`, "/y"},
		"all missing":   {[]string{"a", "b"}, `{"c":1}`, "(none)"},
		"all null":      {[]string{"a"}, `{"a":null}`, "(none)"},
		"empty string":  {[]string{"a"}, `{"a":""}`, ""},
		"escapes":       {[]string{"a"}, `{"a":"\u00e9\n\"/"}`, "\u00e9\n\"/"},
		"number text":   {[]string{"a", "b"}, `{"a":1.0,"b":12345678901234567890}`, "1.0/12345678901234567890"},
		"bool":          {[]string{"a", "b"}, `{"a":true,"b":false}`, "true/false"},
		"object":        {[]string{"a"}, `{"a":{"b": 1}}`, `{"b": 1}`},
		"key twice":     {[]string{"a"}, `{"a":"x","a":"y"}`, "y"},
		"normalized":    {[]string{"normalized.resource.namespace", "normalized.user", "d"}, `{"decision_id":"1","d":2,"input":{"user":"al\u0069ce"}}`, "/alice/2"},
		"none of it":    {[]string{"normalized.user"}, `{"normalized":{"user":"x"}}`, "(none)"},
	} {
		t.Run(name, func(t *testing.T) {
			var e encoder
			e.reset()
			got := "(none)"
			if _, key := e.record(batch(1, test.record), 0, &Config{Key: test.paths}); key != nil {
				got = string(key)
			}
			if got != test.want {
				t.Errorf("key is %q, want %q", got, test.want)
			}
		})
	}
}

func TestAccepted(t *testing.T) {
	a := accepted{}
	whole := batch(5, `{}`, `{}`, `{}`)
	has := func(i int) bool { return a.has(whole, &whole.Items[i]) }
	a.begin(whole)
	a.add(whole, &whole.Items[0])
	a.add(whole, &whole.Items[2])
	// The batch is offered in parts: the first must not forget the others.
	part := sinks.Batch{Queue: queueID, Items: whole.Items[:1]}
	a.begin(part)
	a.forget(part)
	if has(0) || !has(2) {
		t.Errorf("knows 5: %v, 7: %v, want only 7", has(0), has(2))
	}
	redriven := batch(7, `{}`)
	redriven.Queue, redriven.Items[0].Late = "an earlier start", sinks.Redriven
	if a.begin(redriven); a.has(redriven, &redriven.Items[0]) || !has(2) {
		t.Error("a redriven record with the same seq is taken for 7, or has it forgotten")
	}
	a.begin(batch(7, `{}`))
	if !has(2) {
		t.Error("does not know 7, want it known until its batch is accepted")
	}
	a.begin(batch(8, `{}`))
	if has(2) {
		t.Error("still knows 7 when the delivery has passed it")
	}
	a.add(whole, &whole.Items[2])
	other := batch(7, `{}`)
	other.Queue = "the next start"
	if a.begin(other); a.has(other, &other.Items[0]) || len(a) > 0 {
		t.Error("knows 7 of another start")
	}
}

// Records that were read together share their headers; the others have their own.
func TestOriginOfEachRecord(t *testing.T) {
	b := startBrokers(t, 1)
	s := openSink(t, b.ListenAddrs())
	items := batch(97, slices.Repeat([]string{`{}`}, 12)...) // the seq gets one more digit
	items.Items[5].Received = items.Items[5].Received.Add(time.Second)
	items.Items[6].Producer = "pod-b/1"
	items.Items[7].Source = "audit"
	items.Items[9].Late, items.Items[10].Late = sinks.Replayed, sinks.Replayed
	send(t, s, items)
	another := sinks.Batch{Queue: strings.Repeat("x", len(queueID)), Items: items.Items[11:]}
	send(t, s, another)
	for i, m := range b.held(t, 0) {
		if i == len(items.Items) {
			items.Queue, items.Items = another.Queue, append(items.Items, another.Items...)
		}
		it := items.Items[i]
		got := []string{header(m, "docket-id"), header(m, "docket-seq"), header(m, "docket-source"), header(m, "docket-producer"), header(m, "docket-received"), header(m, "docket-late")}
		want := []string{items.ID(i), fmt.Sprint(it.Seq), it.Source, it.Producer, it.Received.Format(time.RFC3339Nano), cmp.Or(string(it.Late), "(none)")}
		if !slices.Equal(got, want) {
			t.Errorf("message %d is from %v, want %v", i, got, want)
		}
	}
}
