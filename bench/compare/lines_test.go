package main

import (
	"os"
	"strings"
	"testing"
)

func TestWriteReport(t *testing.T) {
	data, err := os.ReadFile("testdata/bench.json")
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	if err := writeReport(&got, data); err != nil {
		t.Fatal(err)
	}
	want := `pkg: github.com/docket-export/docket/bench
BenchmarkSingle/ack 1 208.92 us
BenchmarkIdle/memory 1 22.89664 MB
BenchmarkIdle/binary 1 22.884514 MB
`
	if got.String() != want {
		t.Errorf("got\n%swant\n%s", got.String(), want)
	}
}

// What is watched must not drop out of the comparison unseen.
func TestWriteReportIncomplete(t *testing.T) {
	for name, test := range map[string]struct{ report, want string }{
		"not JSON":           {`{`, "results of bench: unexpected end of JSON input"},
		"no such row":        {`{"experiments":[{"name":"single","rows":[{"key":"other","values":[1]}]}]}`, "ack of single was not measured"},
		"no values":          {`{"experiments":[{"name":"single","rows":[{"key":"ack"}]}]}`, "ack of single was not measured"},
		"not watched at all": {`{"experiments":[{"name":"walk"}]}`, "nothing of walk is watched"},
	} {
		t.Run(name, func(t *testing.T) {
			err := writeReport(&strings.Builder{}, []byte(test.report))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

func TestWriteBenchmarks(t *testing.T) {
	const output = `goos: linux
goarch: amd64
pkg: m/p
cpu: fast
BenchmarkCopy/set-2         	  119066	       548.3 ns/op	       0 B/op	       0 allocs/op
BenchmarkCopy/line-2        	   39103	      1624 ns/op	       0 B/op	       0 allocs/op
PASS
`
	const want = `pkg: m/p
BenchmarkCopy/set-2         	  119066	       548.3 ns/op	       0 B/op	       0 allocs/op
BenchmarkCopy/line-2        	   39103	      1624 ns/op	       0 B/op	       0 allocs/op
`
	var got strings.Builder
	if n := writeBenchmarks(&got, output); n != 2 {
		t.Errorf("got %d benchmarks, want 2", n)
	}
	if got.String() != want {
		t.Errorf("got\n%swant\n%s", got.String(), want)
	}
}
