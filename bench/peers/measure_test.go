package main

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/bench/site"
	"github.com/docket-export/docket/bench/trial"
)

// newTestLab is a lab for short measurements of the peers that are told.
func newTestLab(t *testing.T) *lab {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := &site.Site{Self: self, Disk: t.TempDir(), Short: shortDir(t)}
	return &lab{Site: s, records: 2000, quiet: time.Minute, installed: map[string]installation{}}
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

// attempt measures, which must not fail.
func attempt(t *testing.T, measure func(t *trial.T)) {
	t.Helper()
	if err := trial.Run(t.Context(), measure); err != nil {
		t.Fatal(err)
	}
}

// What a program loses, doubles or changes is found, wherever it happens.
func TestMeasuresFindWhatIsLost(t *testing.T) {
	none := func(f figures) bool { return f["lost"] == 0 }
	some := func(f figures) bool { return f["lost"] > 0 }
	few := func(f figures) bool { return f["lost"] < f["sent"]/10 } // written, and not yet read
	all := func(f figures) bool { return f["lost"] == f["sent"] && f["sent"] > 0 }
	tests := map[string]struct {
		behaviour string
		measure   string
		lost      func(figures) bool
		broken    bool
		quiet     time.Duration // where not all arrives; 0: it does, however slow the machine is
	}{
		"intake that is kept":      {behaviour: keeping, measure: "intake", lost: none},
		"intake that is dropped":   {behaviour: dropping, measure: "intake", lost: some, quiet: quietWait},
		"http":                     {behaviour: forgetting, measure: "http", lost: none},
		"http, changed":            {behaviour: changing, measure: "http", broken: true, quiet: quietWait},
		"file":                     {behaviour: forgetting, measure: "file", lost: none},
		"file, dropped":            {behaviour: dropping, measure: "file", lost: some, quiet: quietWait},
		"file, changed":            {behaviour: changing, measure: "file", broken: true, quiet: quietWait},
		"killed with a file":       {behaviour: keeping, measure: "kill", lost: few, quiet: quietWait},
		"start over what was kept": {behaviour: keeping, measure: "start", lost: none},
		"killed with memory alone": {behaviour: forgetting, measure: "kill", lost: all, quiet: quietWait},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newTestLab(t)
			l.quiet = cmp.Or(tt.quiet, l.quiet)
			f, err := onceOf(t, l, tt.measure, standIn(t, tt.behaviour))
			if tt.broken {
				if err == nil || !strings.Contains(err.Error(), "nobody has sent so") {
					t.Fatalf("got %v and %v, want an error about lines that nobody has sent so", f, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !tt.lost(f) {
				t.Errorf("lost %v: %v", f["lost"], f)
			}
			if rate, ok := f["rate"]; ok && rate <= 0 {
				t.Errorf("rate: got %v", rate)
			}
		})
	}
}

func onceOf(t *testing.T, l *lab, measure string, c contender) (f figures, err error) {
	err = trial.Run(t.Context(), func(tr *trial.T) {
		l.T = tr
		f = l.once(measure, c)
	})
	return f, err
}

// docket itself, as it is measured: nothing is lost, and each column has its figure.
func TestDocket(t *testing.T) {
	dir, docket := t.TempDir(), peers()[0]
	attempt(t, func(tr *trial.T) { site.Build(tr, site.Root(tr), filepath.Join(dir, docket.Name)) })
	for _, s := range docket.Settings {
		for _, m := range work().Measures {
			t.Run(s.Name+"/"+m.Name, func(t *testing.T) {
				t.Parallel()
				l := newTestLab(t)
				l.installed[docket.Name] = installation{root: dir}
				unread := m.Name == "kill" && s.Protocol == "" // what producers wrote and docket had not read
				if unread {
					l.quiet = quietWait
				}
				c := contender{docket, s}
				f, err := onceOf(t, l, m.Name, c)
				if err != nil {
					t.Fatal(err)
				}
				if err := m.add(c.key(), f); err != nil {
					t.Error(err)
				}
				if f["lost"] != 0 && !unread {
					t.Errorf("lost %v", f["lost"])
				}
			})
		}
	}
}
