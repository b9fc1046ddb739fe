package tailsource

import (
	"os"
	"testing"

	"github.com/docket-export/docket/sources/tailsource/formats"
)

// Somebody removes what the source keeps for a restart. It is written again while the log is
// idle, so that a restart stores nothing twice.
func TestRemovedStateIsWrittenAgain(t *testing.T) {
	b := newBench(t, formats.JSON)
	want := records("a", 5)
	b.write(lines(want...))
	b.start()
	b.wantStored(want)
	path := statePath(b.env.StateDir)
	if err := os.RemoveAll(b.env.StateDir.String()); err != nil {
		t.Fatal(err)
	}
	b.await("a state", func() bool { there, err := path.Exists(); return there && err == nil })
	b.crash()
	b.start()
	b.write(lines(`{"last":1}`))
	b.wantStored(append(want, `{"last":1}`))
}
