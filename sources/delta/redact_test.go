package delta

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/sources/sourcetest"
)

const canary = "canary-5f1d"

// inPlace redacts what a text is followed by, up to the end of its JSON string: a rule by
// where a value stands.
type inPlace struct{ before string }

func (r inPlace) Append(dst, record []byte) ([]byte, error) {
	if at := bytes.Index(record, []byte(r.before)); at >= 0 {
		at += len(r.before)
		end := at + bytes.IndexByte(record[at:], '"')
		dst = append(append(dst, record[:at]...), "sum-of-"...)
		return append(fmt.Appendf(dst, "%d", end-at), record[end:]...), nil
	}
	return append(dst, record...), nil
}

func (inPlace) Fingerprint() (string, error) { return "in place", nil }

// TestRedaction: nothing that is to be redacted is on disk, in no key, and in no record
// that the intake would not redact.
func TestRedaction(t *testing.T) {
	line := func(message string) string {
		return `{"id":"r","kind":"K","name":"n","message":"` + message + `","resourceName":"pod"}`
	}
	for name, test := range map[string]struct {
		redaction interface {
			Append(dst, record []byte) ([]byte, error)
			Fingerprint() (string, error)
		}
		inRecords bool // the intake redacts the record
	}{
		"as the line has it":   {&sourcetest.Censor{Text: canary}, false},
		"as the record has it": {inPlace{`"violation":{"id":"r","kind":"K","name":"n","message":"`}, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			tracker, err := Open(disk.At(dir).Join("state.json"), time.Hour)
			if err != nil || !tracker.Redact(test.redaction, name) {
				t.Fatal(err)
			}
			run := tracker.Begin("2026-01-05T10:04:07Z")
			opened, n, err := run.Observe(nil, []byte(line(canary)))
			if err != nil || n != 1 || bytes.Contains(opened, []byte(canary)) != test.inRecords {
				t.Errorf("got %s, %v", opened, err)
			}
			plain, _ := parse([]byte(line(canary)), new([]byte))
			if hexKey := fmt.Sprintf("%x", plain.key); bytes.Contains(opened, []byte(hexKey)) {
				t.Errorf("got %s, whose key tells a guess of the message", opened)
			}
			for i := range 2000 { // more than is held in memory
				if _, _, err := run.Observe(nil, []byte(strings.Replace(line(canary), "pod", fmt.Sprint("pod", i), 1))); err != nil {
					t.Fatal(err)
				}
			}
			wantNoCanary(t, dir)
			commitRun(t, run)
			wantNoCanary(t, dir)

			again, err := Open(disk.At(dir).Join("state.json"), time.Hour)
			if err != nil || !again.Redact(test.redaction, name) {
				t.Fatal("the state is not known again", err)
			}
			run = again.Begin("2026-01-05T10:05:07Z")
			if got, n, err := run.Observe(nil, []byte(line(canary))); n != 0 || err != nil {
				t.Errorf("got %s, %v of a violation that stands", got, err)
			}
			_, err = run.End(true, func(lines []byte, _ int) error {
				if bytes.Contains(lines, []byte(canary)) {
					t.Errorf("got %s resolved", lines)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

func commitRun(t *testing.T, run *Run) {
	t.Helper()
	if _, err := run.End(true, func([]byte, int) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := run.Commit(); err != nil {
		t.Fatal(err)
	}
}

func wantNoCanary(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte(canary)) {
			t.Errorf("%s has what is to be redacted", e.Name())
		}
	}
}

// TestAnotherRedaction: a state of violations that were redacted otherwise is forgotten.
func TestAnotherRedaction(t *testing.T) {
	dir := t.TempDir()
	path := disk.At(dir).Join("state.json")
	tracker, err := Open(path, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	run := tracker.Begin("2026-01-05T10:04:07Z")
	if _, _, err := run.Observe(nil, []byte(`{"message":"`+canary+`"}`)); err != nil {
		t.Fatal(err)
	}
	commitRun(t, run)
	if tracker, err = Open(path, time.Hour); err != nil {
		t.Fatal(err)
	}
	if tracker.Redact(&sourcetest.Censor{Text: canary}, "new") {
		t.Fatal("got a state that is taken for one of redacted violations")
	}
	if err := tracker.Reset(); err != nil {
		t.Fatal(err)
	}
	wantNoCanary(t, dir)
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("got %v left of the state", entries)
	}
}

// TestRedactionThatFails gives nothing: what a violation is sent as depends on it.
func TestRedactionThatFails(t *testing.T) {
	tracker, err := Open(disk.At(t.TempDir()).Join("state.json"), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	censor := &sourcetest.Censor{Text: canary}
	cause := errors.New("no key")
	censor.Fails.Store(&cause)
	tracker.Redact(censor, "")
	out, n, err := tracker.Begin("2026-01-05T10:04:07Z").Observe(nil, []byte(`{"message":"`+canary+`"}`))
	if len(out) > 0 || n != 0 || !errors.Is(err, ErrRedaction) || !errors.Is(err, cause) {
		t.Errorf("got %q, %d, %v, want no line and the cause", out, n, err)
	}
}
