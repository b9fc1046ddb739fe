package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// watched are the rows of an experiment of bench that say something about the
// docket under test; the others are about the plain programs beside it, or packages
// of the process that measures.
var watched = map[string][]string{
	"growing": {"rate", "cpu", "memory"},
	"single":  {"ack"},
	"backlog": {"rate", "restart"},
	"http":    {"rate", "cpu", "many"},
	"kafka":   {"rate", "cpu"},
	"idle":    {"memory", "binary"},
}

func watchedNames() string { return strings.Join(slices.Sorted(maps.Keys(watched)), ", ") }

// results are the part of what bench -json writes that is needed here.
type results struct {
	Experiments []struct {
		Name string
		Rows []struct {
			Key, Unit string
			Values    []float64
		}
	}
}

// benchPackage keeps the rows of bench in tables of their own.
const benchPackage = "github.com/docket-export/docket/bench"

// writeReport writes the rows that are watched as Go benchmarks
// (https://go.dev/design/14313-benchmark-format), one for each value. A row that is
// not in the report is an error: it would drop out of the comparison unseen.
func writeReport(w io.Writer, data []byte) error {
	var r results
	if err := json.Unmarshal(data, &r); err != nil {
		return fmt.Errorf("results of bench: %w", err)
	}
	fmt.Fprintln(w, "pkg:", benchPackage)
	for _, e := range r.Experiments {
		if watched[e.Name] == nil {
			return fmt.Errorf("results of bench: nothing of %s is watched", e.Name)
		}
		for _, key := range watched[e.Name] {
			written := 0
			for _, row := range e.Rows {
				if row.Key != key {
					continue
				}
				for _, v := range row.Values {
					written++
					fmt.Fprintf(w, "Benchmark%s%s/%s 1 %v %s\n", strings.ToUpper(e.Name[:1]), e.Name[1:], key, v, row.Unit)
				}
			}
			if written == 0 {
				return fmt.Errorf("results of bench: %s of %s was not measured", key, e.Name)
			}
		}
	}
	return nil
}

// writeBenchmarks writes what benchstat needs of the output of Go benchmarks, their
// lines and the package that they are of, and returns how many benchmarks there
// are. Whatever else differs between two outputs would make two tables of them.
func writeBenchmarks(w io.Writer, output string) int {
	n := 0
	for line := range strings.Lines(output) {
		benchmark := strings.HasPrefix(line, "Benchmark")
		if benchmark {
			n++
		}
		if benchmark || strings.HasPrefix(line, "pkg:") {
			fmt.Fprintln(w, strings.TrimSpace(line))
		}
	}
	return n
}
