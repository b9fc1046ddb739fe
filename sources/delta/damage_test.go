package delta

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/internal/fileversion"
	"github.com/docket-export/docket/sources/statefile"
)

// A state that is damaged is set aside, whatever was damaged, and the tracker begins
// anew: it opens again what stands, and resolves nothing that it does not know.
func TestDamage(t *testing.T) {
	document := func(damage func(string) string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) { rewrite(t, filepath.Join(dir, "audit"), damage) }
	}
	violations := func(damage func(string) string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) { rewrite(t, filepath.Join(dir, "audit.1"), damage) }
	}
	tests := map[string]func(t *testing.T, dir string){
		"document empty":      document(func(string) string { return "" }),
		"document cut":        document(func(s string) string { return s[:len(s)/2] }),
		"document not JSON":   document(func(s string) string { return "\x00" + s[1:] }),
		"another file named":  document(func(s string) string { return strings.Replace(s, `"audit.1"`, `"audit.7"`, 1) }),
		"a file outside":      document(func(s string) string { return strings.Replace(s, `"audit.1"`, `"../../audit.7"`, 1) }),
		"another count":       document(func(s string) string { return strings.Replace(s, `"count":3`, `"count":2`, 1) }),
		"violations empty":    violations(func(string) string { return "" }),
		"violations cut":      violations(func(s string) string { return s[:len(s)-1] }),
		"a line cut away":     violations(func(s string) string { return s[strings.Index(s, "\n")+1:] }),
		"a bit of a key":      violations(func(s string) string { return strings.Replace(s, s[10:11], string(s[10]^1), 1) }),
		"a bit of a text":     violations(func(s string) string { return strings.Replace(s, "shop", "shoq", 1) }),
		"an empty line":       violations(func(s string) string { return "\n" + s }),
		"a line without run":  violations(func(s string) string { return strings.Replace(s, `"opened"`, `"openee"`, 1) }),
		"a line of zeros":     violations(func(s string) string { return s + strings.Repeat("\x00", 4096) }),
		"violations are gone": func(t *testing.T, dir string) { remove(t, filepath.Join(dir, "audit.1")) },
	}
	for name, damage := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "audit")
			commit(t, open(t, path, time.Hour), runID(0), true, lines("", 1, 2, 3))
			damage(t, dir)
			damaged := files(t, dir)

			tracker, err := Open(disk.At(path), time.Hour)
			if fault, ok := errors.AsType[*statefile.DamagedError](err); !ok || fault.Path != path || fault.Kept != path+".damaged" {
				t.Fatalf("got %v, want a DamagedError", err)
			}
			for name, data := range damaged {
				if got := files(t, dir)[name+".damaged"]; got != data {
					t.Errorf("%s.damaged: got %q, want %q", name, got, data)
				}
			}
			records, c := commit(t, tracker, runID(1), true, lines("", 2, 3))
			if got := kinds(records); got != "opened 2, opened 3" || !c.Snapshot {
				t.Errorf("got %q, snapshot %t, want both opened, and a snapshot", got, c.Snapshot)
			}
			records, _ = commit(t, open(t, path, time.Hour), runID(2), true, lines("", 3))
			if got := kinds(records); got != "resolved 2" {
				t.Errorf("after a restart: got %q, want %q", got, "resolved 2")
			}
		})
	}
}

func rewrite(t *testing.T, path string, change func(string) string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := change(string(data))
	if changed == string(data) {
		t.Fatalf("%s: nothing was damaged", path)
	}
	if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// A state that cannot be read now is no damage: it may be readable later.
func TestUnreadableIsNotDamaged(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "audit"), 0o700); err != nil {
		t.Fatal(err)
	}
	tracker, err := Open(disk.At(dir).Join("audit"), 0)
	if _, damaged := errors.AsType[*statefile.DamagedError](err); err == nil || damaged || tracker != nil {
		t.Errorf("got %v, %v, want no tracker and an error that is no damage", tracker, err)
	}
}

// A Commit that fails leaves the state as it was, and can be called again.
func TestCommitFails(t *testing.T) {
	for name, inTheWay := range map[string]string{
		"of the violations": "audit.2",
		"of the document":   "audit.new",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "audit")
			tracker := open(t, path, 0)
			commit(t, tracker, runID(0), true, lines("", 1, 2))
			obstacle := filepath.Join(dir, inTheWay)
			if err := os.Mkdir(obstacle, 0o700); err != nil {
				t.Fatal(err)
			}
			records, _, r := read(t, tracker, runID(1), true, lines("", 2, 3))
			if err := r.Commit(); err == nil {
				t.Fatal("Commit has not failed")
			}
			if again, _, _ := read(t, open(t, path, 0), runID(1), true, lines("", 2, 3)); kinds(again) != kinds(records) {
				t.Errorf("after a restart the run gives %q, before it was %q", kinds(again), kinds(records))
			}
			if err := os.RemoveAll(obstacle); err != nil {
				t.Fatal(err)
			}
			if err := r.Commit(); err != nil {
				t.Fatalf("Commit again: %v", err)
			}
			records, _ = commit(t, open(t, path, 0), runID(2), true, lines("", 3))
			if got := kinds(records); got != "resolved 2" {
				t.Errorf("got %q, want %q", got, "resolved 2")
			}
		})
	}
}

// Where the entries of a run cannot be written, its violations are sent as they come:
// the number of lines is the same.
func TestSpillFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "audit")
	if err := os.Mkdir(path+".opened", 0o700); err != nil {
		t.Fatal(err)
	}
	tracker := open(t, filepath.Join(dir, "elsewhere"), 0)
	tracker.path = disk.At(path)
	r := tracker.Begin(runID(0))
	total := 0
	for i := range 2000 {
		_, n, err := r.Observe(nil, line("", i))
		if total += n; err != nil && !strings.Contains(err.Error(), "cannot track new violations") {
			t.Fatal(err)
		}
	}
	remove(t, path+".opened")
	c, err := r.End(true, nil)
	if err != nil || total != 2000 || c.Plain == 0 || c.Opened+c.Plain != 2000 || c.Standing != c.Opened {
		t.Errorf("got %d lines, %+v, %v, want 2000 lines, some of them plain", total, c, err)
	}
	if err := r.Commit(); err != nil {
		t.Fatal(err)
	}
	if n := uint64(len(open(t, path, 0).standing)); n != c.Opened {
		t.Errorf("%d violations stand, want %d", n, c.Opened)
	}
}

// TestAnotherVersion: a state of a docket that is not this one is no damage, and stays.
func TestAnotherVersion(t *testing.T) {
	for _, version := range []string{"0", "2"} {
		dir := t.TempDir()
		path := filepath.Join(dir, "audit")
		commit(t, open(t, path, time.Hour), runID(0), true, lines("", 1, 2, 3))
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		other := strings.Replace(string(text), `"version":1`, `"version":`+version, 1)
		if err := os.WriteFile(path, []byte(other), 0o600); err != nil {
			t.Fatal(err)
		}
		before := files(t, dir)
		tracker, err := Open(disk.At(path), time.Hour)
		if unknown, ok := errors.AsType[*fileversion.Error](err); !ok || unknown.File != path || tracker != nil {
			t.Errorf("version %s: got %v, want that it is not read", version, err)
		}
		if err := Check(disk.At(path)); !errors.As(err, new(*fileversion.Error)) {
			t.Errorf("version %s: got %v from a check", version, err)
		}
		if after := files(t, dir); !maps.Equal(before, after) {
			t.Errorf("version %s: got %v, want what there was: %v", version, after, before)
		}
	}
}
