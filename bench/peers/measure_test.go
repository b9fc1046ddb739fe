package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docket-export/docket/bench/site"
)

// newTestLab is a lab for short measurements of the peers that are told.
func newTestLab(t *testing.T) *lab {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := &site.Site{Self: self, Disk: t.TempDir(), Short: shortDir(t)}
	return &lab{Site: s, records: 2000, installed: map[string]installation{}}
}

// shortDir is a directory for sockets.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "peers-") //nolint:usetesting // the path of t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

type measurement func(*lab, context.Context, contender) (figures, error)

// What a program loses, doubles or changes is found, wherever it happens.
func TestMeasuresFindWhatIsLost(t *testing.T) {
	every := func(n float64) func(float64) bool { return func(v float64) bool { return v == n } }
	some := func(v float64) bool { return v > 0 && v < killRecords }
	tests := map[string]struct {
		behaviour string
		measure   measurement
		lost      func(float64) bool
		broken    bool
	}{
		"intake that is kept":      {behaviour: keeping, measure: (*lab).intake, lost: every(0)},
		"intake that is dropped":   {behaviour: dropping, measure: (*lab).intake, lost: some},
		"http":                     {behaviour: forgetting, measure: (*lab).throughHTTP, lost: every(0)},
		"http, changed":            {behaviour: changing, measure: (*lab).throughHTTP, broken: true},
		"file":                     {behaviour: forgetting, measure: (*lab).throughFile, lost: every(0)},
		"file, dropped":            {behaviour: dropping, measure: (*lab).throughFile, lost: some},
		"file, changed":            {behaviour: changing, measure: (*lab).throughFile, broken: true},
		"killed with a file":       {behaviour: keeping, measure: (*lab).killed, lost: every(0)},
		"killed with memory alone": {behaviour: forgetting, measure: (*lab).killed, lost: every(killRecords)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, err := tt.measure(newTestLab(t), t.Context(), standIn(t, tt.behaviour))
			if tt.broken {
				if err == nil || !strings.Contains(err.Error(), "nobody has sent so") {
					t.Fatalf("got %v and %v, want an error about lines that nobody has sent so", f, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !tt.lost(f["lost"]) {
				t.Errorf("lost %v", f["lost"])
			}
			if rate, ok := f["rate"]; ok && rate <= 0 {
				t.Errorf("rate: got %v", rate)
			}
		})
	}
}

// docket itself, as it is measured: nothing is lost, and each column has its figure.
func TestDocket(t *testing.T) {
	root, err := site.Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := site.Build(t.Context(), root, filepath.Join(dir, docket.name)); err != nil {
		t.Fatal(err)
	}
	for _, s := range docket.settings {
		for _, m := range measures() {
			t.Run(s.name+"/"+m.Name, func(t *testing.T) {
				t.Parallel()
				l := newTestLab(t)
				l.installed[docket.name] = installation{root: dir}
				c := contender{docket, s}
				f, err := l.once(t.Context(), &m, c)
				if err != nil {
					t.Fatal(err)
				}
				if err := m.add(c.key(), f); err != nil {
					t.Error(err)
				}
				if f["lost"] != 0 {
					t.Errorf("lost %v", f["lost"])
				}
			})
		}
	}
}
