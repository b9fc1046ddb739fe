package delta

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/internal/disk"
)

// line is violation number i as run has it. The members that may change while it stands
// differ from run to run.
func line(run string, i int) []byte {
	return fmt.Appendf(nil, `{"id":%q,"details":{"n":12345678901234567890},"eventType":"violation_audited","group":"constraints.gatekeeper.sh",`+
		`"version":"v1beta1","kind":"K8sRequiredLabels","name":"require-team","message":"provide \u003clabel %d\u003e","enforcementAction":"deny",`+
		`"resourceAPIVersion":"v1","resourceKind":"Pod","resourceNamespace":"shop","resourceName":"cart-%d","resourceLabels":{"run":%q}}`, run, i, i, run)
}

func lines(run string, numbers ...int) [][]byte {
	all := make([][]byte, len(numbers))
	for i, n := range numbers {
		all[i] = line(run, n)
	}
	return all
}

// runID is the id of a run that began so many minutes after the first.
func runID(minutes int) string {
	return time.Date(2026, 1, 5, 10, 0, 0, 0, time.UTC).Add(time.Duration(minutes) * time.Minute).Format(time.RFC3339)
}

func open(t *testing.T, path string, interval time.Duration) *Tracker {
	t.Helper()
	tracker, err := Open(disk.At(path), interval)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	return tracker
}

// read reads a run to its end and returns what it gave.
func read(t *testing.T, tracker *Tracker, run string, complete bool, lines [][]byte) (records []record, c Changes, r *Run) {
	t.Helper()
	r = tracker.Begin(run)
	for _, l := range lines {
		out, n, err := r.Observe(nil, l)
		if err != nil {
			t.Fatalf("Observe %s: %v", l, err)
		}
		records = append(records, split(t, out, n)...)
	}
	c, err := r.End(complete, func(out []byte, n int) error {
		records = append(records, split(t, out, n)...)
		return nil
	})
	if err != nil {
		t.Fatalf("End: %v", err)
	}
	return records, c, r
}

// commit reads a run and commits it.
func commit(t *testing.T, tracker *Tracker, run string, complete bool, lines [][]byte) ([]record, Changes) {
	t.Helper()
	records, c, r := read(t, tracker, run, complete, lines)
	if err := r.Commit(); err != nil {
		t.Fatalf("Commit: %v", err)
	}
	return records, c
}

// record is one of docket's, decoded.
type record struct {
	EventType, ID, Key, Opened string
	Violation                  json.RawMessage
}

// split cuts what a run has given into its n records.
func split(t *testing.T, out []byte, n int) []record {
	t.Helper()
	var records []record
	for text := range bytes.Lines(out) {
		var r record
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&r); err != nil || !bytes.HasSuffix(text, []byte("\n")) {
			t.Fatalf("got %q, want a record: %v", text, err)
		}
		records = append(records, r)
	}
	if len(records) != n {
		t.Fatalf("got %d records, it says %d: %s", len(records), n, out)
	}
	return records
}

// kinds is what the records are, in short: "opened 3".
func kinds(records []record) string {
	var all []string
	for _, r := range records {
		var v struct {
			Name string `json:"resourceName"`
		}
		if err := json.Unmarshal(r.Violation, &v); err != nil {
			return err.Error()
		}
		all = append(all, strings.TrimPrefix(r.EventType, "docket.audit.")+" "+strings.TrimPrefix(v.Name, "cart-"))
	}
	return strings.Join(all, ", ")
}

// files are the names and contents below dir.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	names, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(dir, name.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[name.Name()] = string(data)
	}
	return all
}
