package delta

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/decision"
)

// A real run of Gatekeeper: its violations are opened with their bytes kept, and gone
// only when a complete run lacks them. The audit that failed, and looks clean, resolves
// nothing.
func TestSample(t *testing.T) {
	data, err := os.ReadFile("../../testdata/samples/gatekeeper/disk-export-audit-channel-2026-11-21T07_38_01Z.log")
	if err != nil {
		t.Fatal(err)
	}
	all := bytes.Split(bytes.TrimSuffix(data, []byte("\n")), []byte("\n"))
	violations := all[1 : len(all)-1] // between start and end
	tracker := open(t, filepath.Join(t.TempDir(), "audit"), time.Hour)

	records, c := commit(t, tracker, "2026-11-21T07:38:01Z", true, violations)
	if len(records) != len(violations) {
		t.Fatalf("got %d records, want %d", len(records), len(violations))
	}
	for i, r := range records {
		if r.EventType != decision.AuditOpened || r.ID != "2026-11-21T07:38:01Z" || string(r.Violation) != string(violations[i]) {
			t.Errorf("got %+v, want %s opened", r, violations[i])
		}
	}
	if want := (Changes{Opened: 13, Standing: 13, Snapshot: true}); c != want {
		t.Errorf("got %+v, want %+v", c, want)
	}

	records, c = commit(t, tracker, "2026-11-21T07:39:01Z", false, nil) // the audit that failed
	if want := (Changes{Standing: 13}); len(records) > 0 || c != want {
		t.Errorf("a failed audit: got %v, %+v, want %+v", records, c, want)
	}
	records, c = commit(t, tracker, "2026-11-21T07:40:01Z", true, violations[1:])
	if want := (Changes{Resolved: 1, Standing: 12}); len(records) != 1 || c != want {
		t.Fatalf("got %v, %+v, want %+v", records, c, want)
	}
	r := records[0]
	want := `{"group":"constraints.gatekeeper.sh","kind":"K8sRequiredLabels","name":"ns-must-have-team","message":"you must provide labels: {\"team\"}",` +
		`"enforcementAction":"dryrun","resourceAPIVersion":"v1","resourceKind":"Namespace","resourceName":"kube-public"}`
	if r.EventType != decision.AuditResolved || r.ID != "2026-11-21T07:40:01Z" || r.Opened != "2026-11-21T07:38:01Z" || string(r.Violation) != want {
		t.Errorf("got %+v, want %s resolved", r, want)
	}
}

// The form of the records is what the package says.
func TestRecordsAreWritten(t *testing.T) {
	tracker := open(t, filepath.Join(t.TempDir(), "audit"), time.Minute)
	const violation = ` {"name":"a","resourceName":"b", "n":1.10} `
	r := tracker.Begin(runID(0))
	opened, _, err := r.Observe(nil, []byte(violation+"\r"))
	if _, endErr := r.End(true, nil); err != nil || endErr != nil {
		t.Fatal(err, endErr)
	}
	if err := r.Commit(); err != nil {
		t.Fatal(err)
	}
	key := split(t, opened, 1)[0].Key

	r = tracker.Begin(runID(1))
	snapshot, _, err := r.Observe(nil, []byte(violation))
	if err != nil {
		t.Fatal(err)
	}
	r = tracker.Begin(runID(1))
	var resolved string
	if _, err := r.End(true, func(lines []byte, _ int) error { resolved += string(lines); return nil }); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ got, want string }{
		{string(opened), `{"eventType":"docket.audit.opened","id":"2026-01-05T10:00:00Z","key":"` + key + `","violation":{"name":"a","resourceName":"b", "n":1.10}}` + "\n"},
		{string(snapshot), `{"eventType":"docket.audit.snapshot","id":"2026-01-05T10:01:00Z","key":"` + key + `","opened":"2026-01-05T10:00:00Z","violation":{"name":"a","resourceName":"b", "n":1.10}}` + "\n"},
		{resolved, `{"eventType":"docket.audit.resolved","id":"2026-01-05T10:01:00Z","key":"` + key + `","opened":"2026-01-05T10:00:00Z","violation":{"name":"a","resourceName":"b"}}` + "\n"},
	} {
		if tt.got != tt.want {
			t.Errorf("got  %swant %s", tt.got, tt.want)
		}
	}
}

// What makes two violations the same one.
func TestIdentity(t *testing.T) {
	const base = `{"id":"1","group":"g","version":"v1","kind":"K","name":"n","message":"a\u003cb","enforcementAction":"deny",` +
		`"resourceGroup":"rg","resourceAPIVersion":"v1","resourceKind":"Pod","resourceNamespace":"ns","resourceName":"r","details":{"x":1}}`
	tests := map[string]struct {
		old, new string
		same     bool
	}{
		"itself":                {"", "", true},
		"another run":           {`"id":"1"`, `"id":"2"`, true},
		"other details":         {`{"x":1}`, `{"x":2}`, true},
		"constraint version":    {`"version":"v1"`, `"version":"v2"`, true},
		"another spelling":      {`a\u003cb`, `a<b`, true},
		"space":                 {`,"kind"`, ` , "kind"`, true},
		"empty is absent":       {`"name":"n"`, `"namespace":"","name":"n"`, true},
		"constraint group":      {`"group":"g"`, `"group":"h"`, false},
		"constraint kind":       {`"kind":"K"`, `"kind":"L"`, false},
		"constraint name":       {`"name":"n"`, `"name":"m"`, false},
		"message":               {`a\u003cb`, `a`, false},
		"action":                {`"deny"`, `"warn"`, false},
		"resource group":        {`"rg"`, `"rh"`, false},
		"resource version":      {`"resourceAPIVersion":"v1"`, `"resourceAPIVersion":"v2"`, false},
		"resource kind":         {`"Pod"`, `"Job"`, false},
		"resource namespace":    {`"ns"`, `"other"`, false},
		"no resource namespace": {`"resourceNamespace":"ns",`, ``, false},
		"resource name":         {`"r"`, `"s"`, false},
		"a text moved on":       {`"resourceNamespace":"ns","resourceName":"r"`, `"resourceNamespace":"n","resourceName":"sr"`, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tracker := open(t, filepath.Join(t.TempDir(), "audit"), 0)
			if !strings.Contains(base, tt.old) {
				t.Fatalf("%q is not in the line", tt.old)
			}
			r := tracker.Begin("")
			other := strings.Replace(base, tt.old, tt.new, 1)
			for _, line := range []string{base, other} {
				if _, _, err := r.Observe(nil, []byte(line)); err != nil {
					t.Fatal(err)
				}
			}
			if same := r.changes.Opened == 1; same != tt.same {
				t.Errorf("%s and %s: got the same %t, want %t", base, other, same, tt.same)
			}
		})
	}
}

// What cannot be tracked is sent as it came, and counted.
func TestPlain(t *testing.T) {
	const deep = maxBrackets + 20
	tests := map[string]struct {
		line  string
		limit int
		want  error
	}{
		"no JSON":         {`{"name":`, 0, errNoObject},
		"an array":        {`[]`, 0, errNoObject},
		"not UTF-8":       {"{\"name\":\"\xff\"}", 0, errNoObject},
		"too deep":        {`{"a":` + strings.Repeat("[", deep) + strings.Repeat("]", deep) + `}`, 0, errNoObject},
		"record too long": {`{"name":"a"}`, 50, ErrTooLong},
		"too many":        {string(line("", 7)), 0, ErrTooMany},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tracker := open(t, filepath.Join(t.TempDir(), "audit"), 0)
			tracker.MaxRecordBytes, tracker.maxStanding = tt.limit, 0
			if !errors.Is(tt.want, ErrTooMany) {
				tracker.maxStanding = 1
			}
			for minute := range 2 { // in every run
				r := tracker.Begin(runID(minute))
				out, n, err := r.Observe([]byte("before\n"), []byte(tt.line))
				if string(out) != "before\n"+tt.line+"\n" || n != 1 || !errors.Is(err, tt.want) {
					t.Errorf("got %q, %d, %v, want the line itself and %v", out, n, err, tt.want)
				}
				c, err := r.End(true, nil)
				if want := (Changes{Plain: 1}); c != want || err != nil {
					t.Errorf("got %+v, %v, want %+v", c, err, want)
				}
				if err := r.Commit(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// Beyond the limit nothing is called resolved, and what is resolved makes room.
func TestTooMany(t *testing.T) {
	tracker := open(t, filepath.Join(t.TempDir(), "audit"), 0)
	tracker.maxStanding = 2
	for minute, tt := range []struct {
		numbers []int
		want    string // of each record, as kinds has it; "plain" for a line
	}{
		{[]int{1, 2, 3}, "opened 1, opened 2, plain"},
		{[]int{1, 2}, ""}, // 3 is gone, and was never opened
		{[]int{2, 3}, "plain, resolved 1"},
		{[]int{2, 3}, "opened 3"},
	} {
		var got []string
		r := tracker.Begin(runID(minute))
		for _, n := range tt.numbers {
			out, n, err := r.Observe(nil, line("", n))
			switch {
			case errors.Is(err, ErrTooMany):
				got = append(got, "plain")
			case err != nil:
				t.Fatal(err)
			case n > 0:
				got = append(got, kinds(split(t, out, n)))
			}
		}
		_, err := r.End(true, func(out []byte, n int) error {
			got = append(got, kinds(split(t, out, n)))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Commit(); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(got, ", "); got != tt.want {
			t.Errorf("run %d: got %q, want %q", minute, got, tt.want)
		}
	}
}

// A violation that stands and whose line cannot be read any more, as its details have
// become too deep, is not called resolved: what cannot be read may be any of them.
func TestUnreadResolvesNothing(t *testing.T) {
	tracker := open(t, filepath.Join(t.TempDir(), "state.json"), time.Hour)
	commit(t, tracker, runID(0), true, lines(runID(0), 1, 2))
	r := tracker.Begin(runID(1))
	deep := bytes.Replace(line(runID(1), 1), []byte(`12345678901234567890`), []byte(strings.Repeat("[", maxBrackets)+strings.Repeat("]", maxBrackets)), 1)
	if _, n, err := r.Observe(nil, deep); n != 1 || !errors.Is(err, errNoObject) {
		t.Errorf("got %d lines and %v, want the line as it came, and why", n, err)
	}
	c, err := r.End(true, func(lines []byte, _ int) error {
		t.Errorf("got %s, want nothing resolved", lines)
		return nil
	})
	if want := (Changes{Standing: 2, Plain: 1}); c != want || err != nil {
		t.Errorf("got %+v, %v, want %+v", c, err, want)
	}
	if err := r.Commit(); err != nil {
		t.Fatal(err)
	}
	records, _ := commit(t, tracker, runID(2), true, lines(runID(2), 1))
	if got := kinds(records); got != "resolved 2" {
		t.Errorf("got %q, want the one resolved that is gone", got)
	}
}
