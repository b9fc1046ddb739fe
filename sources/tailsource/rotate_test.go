package tailsource

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/docket-export/docket/sources/tailsource/formats"
)

func TestAFileThatDoesNotExistYet(t *testing.T) {
	t.Parallel()
	b := newBench(t, formats.JSON)
	b.path = filepath.Join(b.dir, "a", "b", "manager.log")
	b.config.Path = b.path
	b.start()
	b.awaitTrouble("does not exist")
	if err := os.MkdirAll(filepath.Dir(b.path), 0o755); err != nil {
		t.Fatal(err)
	}
	want := records("a", 10)
	b.write(lines(want...))
	b.wantStored(want)
	b.awaitTrouble("")
}

func TestRotationByRename(t *testing.T) {
	t.Parallel()
	names := map[string]func(b *bench, n int){
		"numbers": func(b *bench, n int) { b.rotate(9) },
		"dates": func(b *bench, n int) {
			if err := os.Rename(b.path, fmt.Sprintf("%s.202601%02d-100407", b.path, n+1)); err != nil {
				t.Fatal(err)
			}
		},
		"dates within": func(b *bench, n int) {
			if err := os.Rename(b.path, filepath.Join(b.dir, fmt.Sprintf("manager-2026-01-%02dT10-04-07.000.log", n+1))); err != nil {
				t.Fatal(err)
			}
		},
		"removed": func(b *bench, n int) {
			if err := os.Remove(b.path); err != nil {
				t.Fatal(err)
			}
		},
	}
	for name, rotate := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, formats.JSON)
			b.start()
			var want []string
			for n := range 8 {
				more := records(fmt.Sprint(n), 200)
				b.write(lines(more...))
				want = append(want, more...)
				if name == "removed" { // what was never seen to be there cannot be read
					b.wantStored(want)
				}
				rotate(b, n)
			}
			last := records("last", 3)
			b.write(lines(last...))
			b.wantStored(append(want, last...))
			if lost := b.source.Report().Lost; lost != 0 {
				t.Errorf("got %d lost, want 0", lost)
			}
		})
	}
}

// awaitHeld waits until the source knows of n files: what comes and goes unseen is
// found by the names that are left, and here there are none.
func (b *bench) awaitHeld(n int) {
	b.t.Helper()
	b.await(fmt.Sprintf("%d files held", n), func() bool {
		f := b.source.follower.Load()
		if f == nil {
			return false
		}
		files, latest := f.Held()
		return files >= n && latest > 0
	})
}

func TestRotationsWhileDocketIsDown(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"stop", "crash"} {
		t.Run(how, func(t *testing.T) {
			b := newBench(t, formats.JSON)
			b.start()
			want := records("before", 100)
			b.write(lines(want...))
			b.wantStored(want)
			if how == "stop" {
				b.stop()
			} else {
				b.crash()
			}
			for n := range 4 {
				more := records(fmt.Sprint(n), 100)
				b.write(lines(more...))
				want = append(want, more...)
				b.rotate(9)
			}
			more := records("after", 10)
			b.write(lines(more...))
			b.start()
			b.wantStored(concat(want, more))
			if lost := b.source.Report().Lost; lost != 0 {
				t.Errorf("got %d lost, want 0", lost)
			}
		})
	}
}

// TestMoreFilesThanAreHeld: a log that rotated more often than files are held open, or
// remembered, is read file by file, each once.
func TestMoreFilesThanAreHeld(t *testing.T) {
	t.Parallel()
	b := newBench(t, formats.JSON)
	b.start()
	want := []string{`{"first":true}`}
	b.write(lines(want...))
	b.wantStored(want)
	b.stop()
	const files = 2*256 + 50 // 256 are held at a time
	for n := range files {
		more := records(fmt.Sprint(n), 2)
		b.write(lines(more...))
		want = append(want, more...)
		if err := os.Rename(b.path, fmt.Sprintf("%s.20260105-%06d", b.path, n)); err != nil {
			t.Fatal(err)
		}
	}
	b.start()
	b.write("{}\n")
	b.wantStored(append(want, "{}"))
	b.awaitTrouble("")
	if lost := b.source.Report().Lost; lost != 0 {
		t.Errorf("got %d lost, want 0", lost)
	}
}

// TestRotationsWhileTheQueueIsFull: the files are gone from the directory before a line
// of them is taken.
func TestRotationsWhileTheQueueIsFull(t *testing.T) {
	t.Parallel()
	b := newBench(t, formats.JSON)
	b.in.Fill()
	b.start()
	var want []string
	for n := range 10 {
		more := records(fmt.Sprint(n), 500)
		b.write(lines(more...))
		want = append(want, more...)
		b.awaitHeld(n + 1)
		b.rotate(1)
	}
	b.write("{}\n")
	b.in.Drain()
	b.wantStored(append(want, "{}"))
}

// TestACrashBehindARotation: the position passes from a file to the next once the records of the
// first are durable, and nothing of the next is sent before.
func TestACrashBehindARotation(t *testing.T) {
	t.Parallel()
	b := newBench(t, formats.JSON)
	b.start()
	want := records("a", 15)
	b.write(lines(want[:5]...))
	b.wantStored(want[:5])
	b.in.Hold()
	b.write(lines(want[5:10]...))
	b.await("pending records", func() bool { return b.in.Pending() == 5 })
	b.rotate(9)
	b.write(lines(want[10:]...))
	b.awaitHeld(2)
	time.Sleep(3 * b.grace) // in which the first file could be left
	if n := b.in.Pending(); n != 5 {
		t.Fatalf("got %d pending records, want the 5 of the first file", n)
	}
	b.crash()
	b.start()
	b.wantStored(want)
}

// TestCopyTruncate: what was read of a file that is copied and truncated is stored once. The
// copies are other files, whenever they are looked at.
func TestCopyTruncate(t *testing.T) {
	t.Parallel()
	b := newBench(t, formats.JSON)
	b.start()
	var want []string
	for n := range 6 {
		more := records(fmt.Sprint(n), 100+n) // longer each time: it grows past the old size
		b.write(lines(more...))
		want = append(want, more...)
		b.wantStored(want)
		if n%2 == 1 { // a restart finds the file truncated
			b.stop()
		}
		b.copyTruncate(fmt.Sprintf("%s.%d", b.path, n))
		if n%2 == 1 {
			b.start()
		}
	}
	more := records("last", 10)
	b.write(lines(more...))
	b.wantStored(append(want, more...))
	b.rotate(99)
	b.write("{}\n")
	b.wantStored(concat(want, more, []string{"{}"}))
}
