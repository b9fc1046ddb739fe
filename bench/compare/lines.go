package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// watched are the rows of an experiment of bench that say something about the
// docket under test; the others are about the plain programs beside it, or packages
// of the process that measures.
type watched struct {
	experiment string
	rows       []string
}

func allWatched() []watched {
	return []watched{
		{"growing", []string{"rate", "cpu", "memory"}},
		{"single", []string{"ack"}},
		{"backlog", []string{"rate", "restart"}},
		{"http", []string{"rate", "cpu", "many"}},
		{"kafka", []string{"rate", "cpu"}},
		{"idle", []string{"memory", "binary"}},
	}
}

func watchedNames() []string {
	var names []string
	for _, w := range allWatched() {
		names = append(names, w.experiment)
	}
	return names
}

// report is the part of what bench -json writes that is needed here.
type report struct {
	Experiments []experiment `json:"experiments"`
}

type experiment struct {
	Name string `json:"name"`
	Rows []row  `json:"rows"`
}

type row struct {
	Key    string    `json:"key"`
	Unit   string    `json:"unit"`
	Values []float64 `json:"values"`
}

// benchPackage keeps the rows of bench in tables of their own.
const benchPackage = "github.com/docket-export/docket/bench"

// writeReport writes the rows that are watched as Go benchmarks
// (https://go.dev/design/14313-benchmark-format), one for each value. A row that is
// not in the report is an error: it would drop out of the comparison unseen.
func writeReport(w io.Writer, data []byte) error {
	var r report
	if err := json.Unmarshal(data, &r); err != nil {
		return fmt.Errorf("results of bench: %w", err)
	}
	fmt.Fprintln(w, "pkg:", benchPackage)
	for _, e := range r.Experiments {
		i := slices.IndexFunc(allWatched(), func(w watched) bool { return w.experiment == e.Name })
		if i < 0 {
			return fmt.Errorf("results of bench: nothing of %s is watched", e.Name)
		}
		for _, key := range allWatched()[i].rows {
			if err := e.write(w, key); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e experiment) write(w io.Writer, key string) error {
	i := slices.IndexFunc(e.Rows, func(r row) bool { return r.Key == key })
	if i < 0 || len(e.Rows[i].Values) == 0 {
		return fmt.Errorf("results of bench: %s of %s was not measured", key, e.Name)
	}
	for _, v := range e.Rows[i].Values {
		fmt.Fprintf(w, "Benchmark%s%s/%s 1 %v %s\n", strings.ToUpper(e.Name[:1]), e.Name[1:], key, v, e.Rows[i].Unit)
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
