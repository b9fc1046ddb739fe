package main

import (
	"os"
	"testing"

	"github.com/docket-export/docket/bench/load"
	"github.com/docket-export/docket/bench/process"
	"github.com/docket-export/docket/bench/site"
	"github.com/docket-export/docket/bench/trial"
	"github.com/docket-export/docket/internal/testinput"
)

// attempt measures, which must not fail.
func attempt(t *testing.T, measure func(t *trial.T)) {
	t.Helper()
	if err := trial.Run(t.Context(), measure); err != nil {
		t.Fatal(err)
	}
}

// in is attempt in a lab.
func in(t *testing.T, l *lab, measure func(l *lab)) {
	t.Helper()
	attempt(t, func(tr *trial.T) { measure(l.in(tr)) })
}

// testLab is a lab without a binary.
func testLab(t *testing.T) *lab {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// Else a process with the race detector takes a second to end.
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	return &lab{Site: &site.Site{Self: self, Disk: t.TempDir(), Short: t.TempDir()}, records: load.Producers * load.Window}
}

// docketLab is a lab with the binary.
func docketLab(t *testing.T) *lab {
	t.Helper()
	l := testLab(t)
	testinput.Packages(t, "github.com/docket-export/docket/cmd/docket")
	l.docket = builtDocket
	attempt(t, func(tr *trial.T) {
		l.Root = site.Root(tr)
		if _, err := os.Stat(builtDocket); err != nil { // or another test has built it
			site.Build(tr, l.Root, l.docket)
		}
	})
	return l
}

// What a process of this program cannot do, it says.
func TestCommandsFail(t *testing.T) {
	l := testLab(t)
	nobody := process.FreeAddress()
	for command, in := range map[string]any{
		postLoopCommand: postLoop{URL: "http://" + nobody, Loops: 2, PerBatch: 1, Batches: 4},
		tryLogCommand:   "text",
	} {
		if err := trial.Run(t.Context(), func(t *trial.T) { process.Call[load.Done](t, l.Self, command, in) }); err == nil {
			t.Errorf("%s: got no error", command)
		}
	}
}
