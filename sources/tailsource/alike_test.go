package tailsource

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/sources/watch"
)

// TestOtherLogsBesideAreNotRead: a directory has logs of other programs, and copies that
// people have made.
func TestOtherLogsBesideAreNotRead(t *testing.T) {
	t.Parallel()
	b := newBench(t, JSON)
	b.start()
	var want []string
	others := []string{"manager-audit.log", "manager.webhook.log", "manager.log.bak", "manager.log.swp", "manager.log.1.gz", "manager.logs", "manager.log.d", "manager.log~"}
	for n := range 3 {
		more := records(fmt.Sprint(n), 20)
		b.write(lines(more...))
		want = append(want, more...)
		b.wantStored(want)
		for _, name := range others {
			appendTo(t, filepath.Join(b.dir, name), lines(records(name, 3)...))
		}
		b.rotate(9)
	}
	b.write("{}\n")
	b.wantStored(append(want, "{}"))
}

// TestTheSameBannerInEveryFile: what a file begins with does not make it a copy.
func TestTheSameBannerInEveryFile(t *testing.T) {
	for _, length := range []int{1, 65, 5000} {
		t.Run(fmt.Sprint(length), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, JSON)
			banner := "-" + strings.Repeat("=", length) + "\n"
			b.write(banner)
			b.start()
			b.awaitSeen()
			b.await("a position", func() bool { _, err := os.Stat(statePath(b.env.StateDir).String()); return err == nil })
			b.stop()
			var want []string
			for n := range 4 {
				b.rotate(9)
				more := records(fmt.Sprint(n), 3)
				b.write(banner + lines(more...))
				want = append(want, more...)
			}
			b.start()
			b.wantStored(want)
			for n := range 4 {
				b.rotate(9)
				more := records(fmt.Sprint("up", n), 3)
				b.write(banner + lines(more...))
				want = append(want, more...)
			}
			b.wantStored(want)
		})
	}
}

// TestRenamedAtTheSameTime: only the banner of a file was read when docket died, and the
// file was renamed since. The one at the path now begins alike and was written to at the
// same time: it is no copy.
func TestRenamedAtTheSameTime(t *testing.T) {
	t.Parallel()
	b := newBench(t, JSON)
	const banner = "--- log opened ---\n"
	b.write(banner)
	b.start()
	b.awaitSeen()
	b.await("a position", func() bool {
		state, err := os.ReadFile(statePath(b.env.StateDir).String())
		return err == nil && strings.Contains(string(state), fmt.Sprintf(`"offset":%d`, len(banner)))
	})
	b.crash()
	before, after := records("before", 3), records("after", 9)
	b.write(lines(before...))
	b.rotate(9)
	b.write(banner + lines(after...))
	now := time.Now()
	for _, path := range []string{b.path, b.path + ".1"} {
		if err := os.Chtimes(path, now, now); err != nil {
			t.Fatal(err)
		}
	}
	b.start()
	b.wantStored(append(before, after...))
}

// TestSmallCopies: a copy of a few bytes is known for a copy.
func TestSmallCopies(t *testing.T) {
	t.Parallel()
	b := newBench(t, JSON)
	b.start()
	var want []string
	for n := range 5 {
		more := fmt.Sprintf(`{"n":%d}`, n)
		b.write(more + "\n")
		want = append(want, more)
		b.wantStored(want)
		b.copyTruncate(fmt.Sprintf("%s.%d", b.path, 9-n))
	}
	b.write("{}\n")
	b.wantStored(append(want, "{}"))
	b.write("{\"last\":1}\n")
	b.wantStored(append(want, "{}", `{"last":1}`))
}

// TestTheRightCopy: copies of before begin as the last one does.
func TestTheRightCopy(t *testing.T) {
	t.Parallel()
	b := newBench(t, JSON)
	b.start()
	banner := strings.Repeat("=", 2*headBytes) + "\n"
	var want []string
	for n := range 4 {
		b.in.Drain()
		more := records(fmt.Sprint(n), 16000-3000*n) // more than is read at a time
		b.write(banner + lines(more[:50]...))
		want = append(want, more...)
		b.wantStored(want[:len(want)-len(more)+50])
		b.in.Fill()
		b.write(lines(more[50:]...))
		b.awaitSeen()
		b.copyTruncate(fmt.Sprintf("%s.2026010%d", b.path, n))
	}
	b.in.Drain()
	b.write("{}\n")
	b.wantStored(append(want, "{}"))
	if lost := b.source.Report().Lost; lost != 0 {
		t.Errorf("got %d lost, want 0", lost)
	}
}

// TestACopyThatLacksTheEnd: what the engine writes between the copy and the truncation,
// and is read at once, does not make the copy another file.
func TestACopyThatLacksTheEnd(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 100} {
		b := newBench(t, JSON)
		b.start()
		want := records("a", n)
		b.write(lines(want...))
		b.wantStored(want)
		appendTo(t, b.path+".1", lines(want[:n-1]...))
		if err := os.Truncate(b.path, 0); err != nil {
			t.Fatal(err)
		}
		b.write("{}\n")
		b.wantStored(append(want, "{}"))
		b.rotate(9)
		b.write("{\"last\":1}\n")
		b.wantStored(append(want, "{}", `{"last":1}`))
	}
}

// byHand is a follower and a reader that do nothing by themselves.
func (b *bench) byHand() (*follower, *reader) {
	b.t.Helper()
	w := watch.New(time.Hour, b.env.Log)
	s, err := loadState(b.env.StateDir, b.path, b.config.Format, b.env.Log)
	if err != nil {
		b.t.Fatal(err)
	}
	r := &report{log: b.env.Log}
	f := newFollower(b.path, s, w, r, b.env.Log)
	b.t.Cleanup(func() { f.close(); w.Close() })
	return f, newReader(b.env, b.config, b.in, f, r, s)
}

// TestTruncatedBeforeItsFirstRead: what was seen of a file is not what is read of it.
func TestTruncatedBeforeItsFirstRead(t *testing.T) {
	t.Parallel()
	b := newBench(t, JSON)
	want := records("a", 20)
	b.write(lines(want...))
	f, r := b.byHand()
	f.scan()
	b.copyTruncate(b.path + ".1")
	b.write(lines(records("b", 30)...))
	g := f.next()
	rd := r.newReading(g)
	p := f.position(g, rd.taken)
	if _, err := rd.readOnce(p); !errors.Is(err, errMoved) {
		t.Fatalf("got %v from a file that was truncated, want %v", err, errMoved)
	}
	f.differs(g, p.file)
	if _, err := rd.readOnce(f.position(g, rd.taken)); err != nil {
		t.Fatal(err)
	}
	if got := string(rd.batch.records); got != lines(want...) {
		t.Errorf("got %q, want what is in the copy", short(got))
	}
}

// TestLateLinesOfAnOlderFile: what is known of a file is not that of another once older
// ones are forgotten.
func TestLateLinesOfAnOlderFile(t *testing.T) {
	t.Parallel()
	b := newBench(t, JSON)
	b.start()
	var want []string
	old := time.Now().Add(-time.Hour)
	for n := range keptDone + 3 {
		more := records(fmt.Sprint(n), 3)
		b.write(lines(more...))
		want = append(want, more...)
		b.wantStored(want)
		name := fmt.Sprintf("%s.%d", b.path, 200-n)
		if err := os.Rename(b.path, name); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(name, old, old); err != nil {
			t.Fatal(err)
		}
	}
	b.write("{\"held\":1}\n")
	want = append(want, `{"held":1}`)
	b.wantStored(want)
	for n := range 3 {
		appendTo(t, fmt.Sprintf("%s.%d", b.path, 200-keptDone-n), fmt.Sprintf("{\"late\":%d}\n", n))
		want = append(want, fmt.Sprintf(`{"late":%d}`, n))
	}
	b.rotate(99)
	b.write("{\"last\":1}\n")
	b.wantStored(append(want, `{"last":1}`))
}

// TestRenamedSinceItWasListed: a name that is another file's by now is not that file, which
// would be read twice.
func TestRenamedSinceItWasListed(t *testing.T) {
	t.Parallel()
	b := newBench(t, JSON)
	b.write(lines(records("a", 3)...))
	b.rotate(9)
	b.write(lines(records("b", 3)...))
	f, _ := b.byHand()
	files, err := list(b.dir)
	if err != nil || len(files) != 2 {
		t.Fatalf("got %v, %v, want two files", files, err)
	}
	b.rotate(9)
	for _, c := range files {
		if g, there := f.consider(c, b.path); g != nil || there {
			t.Errorf("%s: got it, want that it is not there any more", c.path)
		}
	}
	b.write("{}\n")
	f.mu.Lock()
	defer f.mu.Unlock()
	found, all := f.between(b.path, &generation{})
	defer closeAll(found)
	if len(found) != 2 || !all {
		t.Errorf("got %d files, %v, want the two under their names of now", len(found), all)
	}
}
