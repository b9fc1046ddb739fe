package destinations

import (
	"fmt"
	"strings"
	"testing"
)

// arrival is a record as a destination has it.
type arrival struct{ id, record string }

// check compares what has arrived with the lines that were acknowledged: the n-th
// of them must be there under the id of seq n, byte for byte, and nothing else may.
// It returns how many arrivals are more than there are ids.
func check(t *testing.T, queue string, acknowledged []string, got []arrival) (duplicates int) {
	t.Helper()
	want := make(map[string]string, len(acknowledged))
	for i, line := range acknowledged {
		want[fmt.Sprintf("%s-%d", queue, i+1)] = line
	}
	var wrong problems
	seen := make(map[string]bool, len(want))
	for _, a := range got {
		switch line, ok := want[a.id]; {
		case !ok:
			wrong.addf("id %q is none of the %d records: %.200q", a.id, len(want), a.record)
		case a.record != line:
			wrong.addf("id %s is %q, want %q", a.id, a.record, line)
		}
		seen[a.id] = true
	}
	lost := 0
	for id := range want {
		if !seen[id] {
			lost++
			wrong.addf("id %s is missing", id)
		}
	}
	wrong.report(t)
	duplicates = len(got) - len(seen)
	t.Logf("summary: acknowledged %d, seen %d, duplicates %d, lost %d", len(acknowledged), len(got), duplicates, lost)
	return duplicates
}

// problems are what is wrong with the records of a destination. One fault is
// seldom alone among thousands of records, so only the first few are shown.
type problems []string

func (p *problems) addf(format string, args ...any) {
	*p = append(*p, fmt.Sprintf(format, args...))
}

func (p problems) report(t *testing.T) {
	t.Helper()
	if len(p) > 0 {
		t.Errorf("%d problems, the first of them:\n%s", len(p), strings.Join(p[:min(len(p), 10)], "\n"))
	}
}
