package sinktest

import (
	"fmt"
	"strings"
	"time"

	"github.com/docket-export/docket/sinks"
)

// queue is the UUID in every batch of the suite.
const queue = "3e0c7a52-6f0b-4a53-9d3e-0b7d5f2a9c11"

// largest is the largest record the exporter takes in by default; every
// destination without a smaller limit of its own must take it too.
const largest = 1 << 20

type namedRecord struct{ name, text string }

// exactRecords are objects that an encoder, a decoder or a template would
// change: a sink that parses what it forwards fails on one of them.
func exactRecords() []namedRecord {
	return []namedRecord{
		{"empty object", `{}`},
		{"number text", `{"a":1.0,"b":1E+2,"c":-0,"d":0.10,"e":12345678901234567890123,"f":1e-7}`},
		{"key order", `{"z":1,"a":2,"M":3,"_":4,"":5}`},
		{"key twice", `{"a":1,"a":2}`},
		{"escapes", `{"a":"\"\\\/\b\f\n\r\t\u0000\u00e9\uD83D\uDE00"}`},
		{"lone surrogate", `{"a":"\ud800"}`},
		{"unicode", "{\"a\":\"\u00e9\u2028\u2029\u4e16\u754c\U0001f600\",\"\u00fc\":1}"},
		{"HTML", `{"a":"<script>&amp;'%s %d {{.}}'</script>"}`},
		{"white space", " \t{ \"a\" :\t[ 1 , 2 ] } "},
		{"nested", strings.Repeat(`{"a":[`, 200) + strings.Repeat(`]}`, 200)},
		{"looks like a hello", `{"docket":{"version":1,"producer":"p","next":1}}`},
		{"looks stamped", `{"_docket":{"id":"x"},"a":1}`},
		{"carriage return inside", "{\"a\":1,\r\"b\":2}"},
	}
}

// texts makes n records that differ, numbered from first.
func texts(first, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(`{"eventType":"violation","n":%d,"pad":%q}`, first+i, strings.Repeat("x", (first+i)%97))
	}
	return list
}

// sized makes a record of exactly n bytes.
func sized(n int) string {
	const frame = `{"a":""}`
	return `{"a":"` + strings.Repeat("x", n-len(frame)) + `"}`
}

// batchOf makes a batch of these records with seqs that start at first, which lie
// one behind the other in memory.
func batchOf(first uint64, list ...string) sinks.Batch {
	b := sinks.Batch{Queue: queue}
	rest := []byte(strings.Join(list, "\n") + "\n")
	for i, text := range list {
		seq := first + uint64(i)
		n := len(text)
		b.Items = append(b.Items, sinks.Item{
			Seq:      seq,
			Source:   "webhook",
			Producer: "pod-a/1",
			Received: time.Date(2026, 1, 5, 10, 4, 7, int(seq), time.UTC),
			Record:   rest[:n:n],
		})
		rest = rest[n+1:]
	}
	return b
}

// joined is one batch of the items of several, which do not lie together.
func joined(batches ...sinks.Batch) sinks.Batch {
	all := sinks.Batch{Queue: queue}
	for _, b := range batches {
		all.Items = append(all.Items, b.Items...)
	}
	return all
}
