package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docket-export/docket/bench/load"
	"github.com/docket-export/docket/bench/site"
	"github.com/docket-export/docket/bench/trial"
)

// A profile is of docket and its load, and of the form that go tool pprof reads.
func TestProfileIsOfTheLoad(t *testing.T) {
	l := docketLab(t)
	l.profiles, l.experiment = filepath.Join(t.TempDir(), "profiles"), "ingest"
	l.records = 300_000 // which takes docket some 50 times as long as there is between two samples
	if testing.Short() {
		l.records /= 3
	}
	in(t, l, func(l *lab) { l.startWarm(t.TempDir()).load(load.Full("", l.records)) })
	in(t, l, func(l *lab) { l.mergeProfiles([]experiment{{Name: "idle"}, {Name: "ingest"}}) })
	entries, err := os.ReadDir(l.profiles)
	if err != nil || len(entries) != 1 || entries[0].Name() != "ingest.pprof" {
		t.Fatalf("got %v, %v in the directory, want ingest.pprof alone", entries, err)
	}
	top, err := exec.CommandContext(t.Context(), "go", "tool", "pprof", "-top", "-nodefraction=0", filepath.Join(l.profiles, "ingest.pprof")).CombinedOutput()
	for _, want := range []string{"Type: cpu", "docket/sources/streamsource."} { // which has more than a third of them
		if err != nil || !strings.Contains(string(top), want) {
			t.Errorf("go tool pprof -top: got %v and\n%s\nwant %s in a profile of processor time", err, top, want)
		}
	}
}

func TestProfileThatWasNotTakenIsAnError(t *testing.T) {
	l := &lab{profiles: t.TempDir(), Site: &site.Site{Short: t.TempDir()}}
	err := trial.Run(t.Context(), func(tr *trial.T) { l.in(tr).mergeProfiles([]experiment{{Name: "idle"}}) })
	if err == nil || !strings.Contains(err.Error(), "-profile") {
		t.Errorf("got %v, want an error that names -profile", err)
	}
}

// docket is measured as users have it, and what it is compared with has no part in its
// profile.
func TestNoProfileUnlessAsked(t *testing.T) {
	l := docketLab(t)
	for name, tt := range map[string]struct {
		profiles, program string
	}{
		"not asked for":     {"", ""},
		"of another binary": {t.TempDir(), l.docket},
	} {
		t.Run(name, func(t *testing.T) {
			l := *l
			l.profiles = tt.profiles
			in(t, &l, func(l *lab) {
				s := l.startSetup(t.TempDir(), setup{program: tt.program, sinks: []string{fileEntry(fileSink, t.TempDir())}})
				s.profile()()
				if windows, err := os.ReadDir(filepath.Join(l.Short, "profiles")); err == nil {
					t.Errorf("got windows %v, want none", windows)
				}
				if _, err := s.get(t.Context(), "/debug/pprof/"); err == nil || !strings.Contains(err.Error(), "404") {
					t.Errorf("got %v, want 404", err)
				}
			})
		})
	}
}
