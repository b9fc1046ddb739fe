package filesink

import (
	"testing"

	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// accepted is what the sink of an export has accepted and not yet noted in the manifest.
type accepted struct {
	position
	gaps   manifest.Gaps
	active *manifest.Entry // that the unfinished file would get; nil: there is none
}

// readAccepted reads it from dir, where a sink may be at work. ok is false without a sound
// position.
func readAccepted(t *testing.T, dir string) (a accepted, ok bool) {
	t.Helper()
	f, err := readPosition(disk.At(dir).Join(positionName))
	if err != nil {
		t.Fatal(err)
	}
	if !f.sound {
		return accepted{}, false
	}
	a = accepted{position: f.position, gaps: f.gaps}
	if a.size > 0 {
		e, err := a.entry(activeName(a.form), f.gaps)
		if err != nil {
			t.Fatal(err)
		}
		a.active = &e
	}
	return a, true
}
