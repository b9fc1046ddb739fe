package kafkasink

import (
	"testing"

	"github.com/docket-export/docket/sinks"
)

// The hashes are those that Kafka's Java client documents by its own tests.
func TestPartitionOf(t *testing.T) {
	for key, hash := range map[string]int32{
		"21":                         -973932308,
		"foobar":                     -790332482,
		"a-little-bit-long-string":   -985981536,
		"a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
		"abc": 479470107,
	} {
		for _, n := range []int{1, 2, 3, 7, 12, 100} {
			partitions := make([]int, n)
			for i := range partitions {
				partitions[i] = i
			}
			want := int(hash&0x7fffffff) % n
			if got := partitionOf([]byte(key), partitions); got != want {
				t.Errorf("partitionOf(%q) of %d = %d, want %d", key, n, got, want)
			}
		}
	}
}

func TestStickyPartition(t *testing.T) {
	partitions := []int{0, 1, 2, 3}
	counts := make([]int, len(partitions))
	for i := range 1000 {
		b := batch(uint64(i*1000+1), `{}`)
		p := stickyPartition(b, partitions)
		if again := stickyPartition(b, partitions); again != p {
			t.Fatalf("partition %d, then %d for one batch, want the same", p, again)
		}
		counts[p]++
	}
	for p, n := range counts {
		if n < 150 {
			t.Errorf("partition %d got %d of 1000 batches of a steady size, want about 250", p, n)
		}
	}
}

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
		"key twice":     {[]string{"a"}, `{"a":"x","a":"y"}`, "x"},
	} {
		t.Run(name, func(t *testing.T) {
			var e encoder
			e.reset(batch(1, test.record))
			got := "(none)"
			if key := e.key([]byte(test.record), test.paths); key != nil {
				got = string(key)
			}
			if got != test.want {
				t.Errorf("key is %q, want %q", got, test.want)
			}
		})
	}
}

func TestEncoderKeepsNothingOfTheBatch(t *testing.T) {
	var e encoder
	b := batch(1, `{"k":"x"}`, `{"k":"y"}`)
	e.reset(b)
	first := e.record(b, 0, []string{"k"})
	e.record(b, 1, []string{"k"})
	for i := range b.Items {
		clear(b.Items[i].Record)
	}
	if string(first.value) != `{"k":"x"}` || string(first.key) != "x" {
		t.Errorf("record is %q with key %q after the batch was overwritten, want it unchanged", first.value, first.key)
	}
}

func TestAccepted(t *testing.T) {
	var a accepted
	whole := batch(5, `{}`, `{}`, `{}`)
	a.begin(whole)
	a.add(5)
	a.add(7)
	// The batch is offered in parts: the first must not forget the others.
	part := sinks.Batch{Queue: queueID, Items: whole.Items[:1]}
	a.begin(part)
	a.forget(part)
	if a.has(5) || !a.has(7) {
		t.Errorf("knows 5: %v, 7: %v, want only 7", a.has(5), a.has(7))
	}
	a.begin(batch(7, `{}`))
	if !a.has(7) {
		t.Error("does not know 7, want it known until its batch is accepted")
	}
	a.begin(batch(8, `{}`))
	if a.has(7) {
		t.Error("still knows 7 when the delivery has passed it")
	}
	a.add(8)
	other := batch(8, `{}`)
	other.Queue = "another"
	if a.begin(other); a.has(8) {
		t.Error("knows 8 of another queue")
	}
}
