package tailsource

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docket-export/docket/sources/tailsource/formats"
)

// TestAStateThatIsGone: the queue knows numbers that the source does not.
func TestAStateThatIsGone(t *testing.T) {
	t.Parallel()
	b := newBench(t, formats.JSON)
	b.start()
	want := append([]string{`{"begin":1}`}, records("a", 50)...)
	b.write(lines(want...))
	b.wantStored(want)
	b.copyTruncate(b.path + ".1")
	more := append([]string{`{"begin":1}`}, records("b", 50)...)
	b.write(lines(more...))
	want = append(want, more...)
	b.wantStored(want)
	b.stop()
	if err := os.RemoveAll(b.env.StateDir.String()); err != nil {
		t.Fatal(err)
	}
	last := records("c", 10)
	b.write(lines(last...))
	b.start()
	b.await("the last line", func() bool { s := b.stored(); return s[len(s)-1] == last[9] })
	b.compare(concat(want, more, last)) // what is in the file again: nothing says that it was read
}

// TestAnotherFormat: lines that were passed over in a wrong format are read in the right.
func TestAnotherFormat(t *testing.T) {
	t.Parallel()
	b := newBench(t, formats.CRI)
	b.write("2026-01-05T10:04:07.1Z stdout F {\"n\":1}\n{\"n\":2}\n")
	b.start()
	b.wantStored([]string{`{"n":1}`})
	b.stop()
	b.config.Format = formats.JSON
	b.start()
	b.wantStored([]string{`{"n":1}`, `{"n":1}`, `{"n":2}`})
}

// TestAFileThatCannotBeRead stands in the way of others for a while only.
func TestAFileThatCannotBeRead(t *testing.T) {
	b := newBench(t, formats.JSON)
	target := filepath.Join(b.dir, "real.log")
	symlink(t, "/proc/self/mem", b.path) // its first byte is never there
	b.start()
	b.awaitTrouble("cannot read ")
	if err := os.Remove(b.path); err != nil {
		t.Fatal(err)
	}
	symlink(t, target, b.path)
	appendTo(t, target, "{}\n")
	b.awaitHeld(2)
	b.stop()

	if err := os.Remove(b.path); err != nil {
		t.Fatal(err)
	}
	symlink(t, "/proc/self/mem", b.path)
	b.grace = 0
	f, r := b.byHand()
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { f.Run(ctx) })
	defer wg.Wait()
	defer stop()
	if err := os.Remove(b.path); err != nil {
		t.Fatal(err)
	}
	symlink(t, target, b.path)
	rd := r.newReading(f.Next())
	rd.failing = time.Now().Add(-giveUp)
	if err := rd.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if next := f.Next(); next == nil || next.Path() != target {
		t.Fatalf("got %v to be read next, want the next file", next)
	}
	if lost := r.report.get().Lost; lost != 1 {
		t.Errorf("got %d lost, want 1", lost)
	}
}

func TestADamagedState(t *testing.T) {
	t.Parallel()
	b := newBench(t, formats.JSON)
	b.start()
	want := records("a", 10)
	b.write(lines(want...))
	b.wantStored(want)
	b.stop()
	if err := os.WriteFile(statePath(b.env.StateDir).String(), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.start()
	b.wantStored(concat(want, want)) // again, and none is taken for another
	if !strings.Contains(b.log.String(), "position in the log file is lost") {
		t.Error("got no word about the state, want one")
	}
}

// TestNothingIsReadTwice: after a stop a source goes on where it was.
func TestNothingIsReadTwice(t *testing.T) {
	t.Parallel()
	b := newBench(t, formats.JSON)
	var want []string
	for n := range 5 {
		b.start()
		more := records(fmt.Sprint(n), 50)
		b.write(lines(more...))
		want = append(want, more...)
		b.wantStored(want)
		b.stop()
	}
	if known := b.in.Known(); known != 0 {
		t.Errorf("got %d lines that were sent again, want 0", known)
	}
}

// TestRotatedBeforeAnythingWasRead: a log that is followed and empty is not a new one
// after a restart.
func TestRotatedBeforeAnythingWasRead(t *testing.T) {
	t.Parallel()
	for _, there := range []bool{true, false} {
		b := newBench(t, formats.JSON)
		if there {
			b.write("")
		}
		b.start()
		b.stop()
		want := records("a", 10)
		b.write(lines(want...))
		b.rotate(9)
		b.write("{}\n")
		b.start()
		b.wantStored(append(want, "{}"))
	}
}
