package tailsource

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/sources/feed"
	"github.com/docket-export/docket/sources/sourcetest"
	"github.com/docket-export/docket/sources/statefile"
	"github.com/docket-export/docket/sources/tailsource/follow"
	"syscall"

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

// TestAFileThatCannotBeRead stands in the way of others for a while only.
func TestAFileThatCannotBeRead(t *testing.T) {
	b := newBench(t, formats.JSON)
	target := filepath.Join(b.dir, "real.log")
	symlink(t, "/proc/self/mem", b.path) // its first byte is never there
	s, err := loadState(b.env.StateDir, b.path, b.config.Format, b.env.Log)
	b.check(err)
	r := newReport(b.env.Log)
	f := follow.New(follow.Options{Path: b.path, Poll: poll / 100, Known: s.History, Report: r, Log: b.env.Log})
	t.Cleanup(f.Close)
	rd := newReader(b.env, b.config, poll/100, b.in, f, r, s).newReading(f.Next())
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { f.Run(ctx) })
	defer wg.Wait()
	defer stop()
	b.check(os.Remove(b.path))
	symlink(t, target, b.path)
	appendTo(t, target, "{}\n")
	rd.failing = time.Now().Add(-giveUp)
	b.check(rd.run(t.Context()))
	if next := f.Next(); next == nil || next.Path() != target {
		t.Fatalf("got %v to be read next, want the next file", next)
	}
	if lost := r.get().Lost; lost != 1 {
		t.Errorf("got %d lost, want 1", lost)
	}
}

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

// The queue says that it has lines of contents that were never read: they are somebody
// else's. The contents are stored whole, and the trouble is told.
func TestContentsThatWereNeverReadAreNotKnown(t *testing.T) {
	t.Parallel()
	b := newBench(t, formats.JSON)
	b.start()
	first := records("a", 3)
	b.write(lines(first...))
	b.wantStored(first)
	b.stop()
	s := &state{}
	if _, err := statefile.Load(statePath(b.env.StateDir), stateVersion, s); err != nil {
		t.Fatal(err)
	}
	b.rotate(1)
	second := records("b", 5)
	b.write(lines(second...))
	info, err := os.Stat(b.path)
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := bytes.Cut([]byte(lines(second...)), []byte("\n"))
	sum := sha256.Sum256(line)
	name := feed.Producer("log", string(formats.JSON), fmt.Sprintf("%d.%d", s.Generations+1, info.Sys().(*syscall.Stat_t).Ino), hex.EncodeToString(sum[:16]))
	b.in.Restore([]sourcetest.Line{{Producer: name, Number: 1000, Text: "{}"}})
	b.start()
	b.awaitTrouble("another name")
	b.await("the last line", func() bool { got := b.stored(); return got[len(got)-1] == second[4] })
	got := strings.Join(b.stored(), "\n")
	for _, text := range append(second, `"eventType":"`+decision.ProducerConflictEvent) {
		if n := strings.Count(got, text); n != 1 {
			t.Errorf("%s is stored %d times, want once", text, n)
		}
	}
}

// A position is not saved before the records in front of it are durable.
func TestACrashWhileTheQueueHoldsRecords(t *testing.T) {
	t.Parallel()
	b := newBench(t, formats.JSON)
	b.start()
	want := records("a", 20)
	b.write(lines(want[:10]...))
	b.wantStored(want[:10])
	b.in.Hold()
	b.write(lines(want[10:]...))
	b.await("pending records", func() bool { return b.in.Pending() == 10 })
	time.Sleep(saveEvery + saveEvery/5) // in which a position could be saved
	b.crash()
	b.start()
	b.wantStored(want)
}
