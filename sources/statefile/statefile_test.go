package statefile_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/sources/statefile"
)

type document struct {
	Number int
	Text   string
}

func load(t *testing.T, path string) document {
	t.Helper()
	var d document
	if found, err := statefile.Load(disk.At(path), 1, &d); err != nil || !found {
		t.Fatalf("Load: found %t, %v", found, err)
	}
	return d
}

func save(t *testing.T, path string, d document) {
	t.Helper()
	if err := statefile.Save(disk.At(path), d); err != nil {
		t.Fatal(err)
	}
}

func TestSaveAndLoad(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sources", "audit")
	path := filepath.Join(dir, "state.json")
	var none document
	if found, err := statefile.Load(disk.At(path), 1, &none); found || err != nil {
		t.Errorf("Load of what is not there: found %t, %v", found, err)
	}
	for n := range 3 {
		want := document{n, strings.Repeat("x", n*100_000)}
		save(t, path, want)
		if got := load(t, path); got != want {
			t.Errorf("got %d with %d bytes, want %d with %d", got.Number, len(got.Text), want.Number, len(want.Text))
		}
	}
	for path, want := range map[string]os.FileMode{path: 0o600, dir: 0o700 | os.ModeDir, filepath.Dir(dir): 0o700 | os.ModeDir} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: got mode %v, %v, want %v", path, info.Mode(), err, want)
		}
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
		t.Errorf("got %v, %v, want the state alone", names, err)
	}
}

// A document that cannot be written leaves the one before.
func TestSaveFails(t *testing.T) {
	tests := map[string]struct {
		value  any
		damage func(t *testing.T, path string)
	}{
		"no JSON":             {value: func() {}},
		"the new file":        {damage: func(t *testing.T, path string) { mkdir(t, path+".new") }},
		"a file in its place": {damage: func(t *testing.T, path string) { replace(t, path) }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state.json")
			save(t, path, document{Number: 1})
			if tt.value == nil {
				tt.value = document{Number: 2}
			}
			if tt.damage != nil {
				tt.damage(t, path)
			}
			err := statefile.Save(disk.At(path), tt.value)
			if err == nil || !strings.Contains(err.Error(), "state") || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v, want an error that names the state", err)
			}
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
				if got := load(t, path); got.Number != 1 {
					t.Errorf("got %+v, want number 1", got)
				}
			}
		})
	}
}

func mkdir(t *testing.T, path string) {
	t.Helper()
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
}

// replace puts a directory where the file is, which no file can replace.
func replace(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	mkdir(t, path)
}

func TestDamaged(t *testing.T) {
	whole, err := json.Marshal(document{Number: 7, Text: "text"})
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string][]byte{
		"empty":        nil,
		"no JSON":      []byte("\x00\x00\x00\x00"),
		"another type": []byte(`{"Number":"seven"}`),
		"an array":     []byte(`[]`),
		"more behind":  append(whole, "{}"...),
	}
	for n := range whole {
		tests[fmt.Sprintf("cut at %d", n)] = whole[:n]
	}
	for name, data := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state.json")
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			var d document
			found, err := statefile.Load(disk.At(path), 1, &d)
			damaged, ok := errors.AsType[*statefile.DamagedError](err)
			if found || !ok || damaged.Path != path || damaged.Err == nil || !strings.Contains(err.Error(), damaged.Kept) {
				t.Fatalf("got found %t, %v, want that it is damaged", found, err)
			}
			if kept, err := os.ReadFile(damaged.Kept); err != nil || string(kept) != string(data) {
				t.Errorf("kept are %q, %v, want %q", kept, err, data)
			}
			if found, err := statefile.Load(disk.At(path), 1, &d); found || err != nil {
				t.Errorf("the second time: found %t, %v, want nothing", found, err)
			}
			save(t, path, document{Number: 8})
			if got := load(t, path); got.Number != 8 {
				t.Errorf("got %+v, want number 8", got)
			}
		})
	}
}
