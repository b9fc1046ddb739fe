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
	tests := map[string]func(string) string{
		"empty":            func(string) string { return "" },
		"cut":              func(s string) string { return s[:len(s)/2] },
		"not JSON":         func(s string) string { return "\x00" + s[1:] },
		"no version":       func(s string) string { return strings.Replace(s, `"version"`, `"versiom"`, 1) },
		"another count":    func(s string) string { return strings.Replace(s, `"count":3`, `"count":2`, 1) },
		"the end cut away": func(s string) string { return s[:strings.LastIndex(s[:len(s)-1], "\n")+1] },
		"an entry cut away": func(s string) string {
			i := strings.Index(s, "\n") + 1
			return s[:i] + s[i+strings.Index(s[i:], "\n")+1:]
		},
		"a bit of a key":     func(s string) string { i := strings.Index(s, `"key":"`) + 7; return s[:i] + string(s[i]^1) + s[i+1:] },
		"a bit of a text":    func(s string) string { return strings.Replace(s, "shop", "shoq", 1) },
		"an empty line":      func(s string) string { return strings.Replace(s, "\n", "\n\n", 1) },
		"a line without run": func(s string) string { return strings.Replace(s, `"opened"`, `"openee"`, 1) },
		"zeros behind it":    func(s string) string { return s + strings.Repeat("\x00", 4096) },
	}
	for name, damage := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "audit")
			commit(t, open(t, path, time.Hour), runID(0), true, lines("", 1, 2, 3))
			rewrite(t, path, damage)
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
