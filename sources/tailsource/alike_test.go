package tailsource

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/tailsource/follow"
	"github.com/docket-export/docket/sources/tailsource/formats"
)

const (
	alike      = 1 << 10 // bytes of the beginning by which files are told apart
	remembered = 16      // files that are remembered as read in any case
)

// TestOtherLogsBesideAreNotRead: a directory has logs of other programs, and copies that
// people have made.
func TestOtherLogsBesideAreNotRead(t *testing.T) {
	t.Parallel()
	b := newBench(t, formats.JSON)
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
			b := newBench(t, formats.JSON)
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
	b := newBench(t, formats.JSON)
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
	b := newBench(t, formats.JSON)
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
	b := newBench(t, formats.JSON)
	b.start()
	banner := strings.Repeat("=", 2*alike) + "\n"
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
		b := newBench(t, formats.JSON)
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
func (b *bench) byHand() (*follow.Follower, *reader) {
	b.t.Helper()
	s, err := loadState(b.env.StateDir, b.path, b.config.Format, b.env.Log)
	if err != nil {
		b.t.Fatal(err)
	}
	r := newReport(new(sources.AuditLog), b.env.Log)
	f := follow.New(follow.Options{Path: b.path, Grace: b.grace, Known: s.History, First: s.first, Report: r, Log: b.env.Log})
	b.t.Cleanup(f.Close)
	return f, newReader(b.env, b.config, b.in, f, r, s)
}

// TestTruncatedBeforeItsFirstRead: what was seen of a file is not what is read of it.
func TestTruncatedBeforeItsFirstRead(t *testing.T) {
	t.Parallel()
	b := newBench(t, formats.JSON)
	want := records("a", 20)
	b.write(lines(want...))
	f, _ := b.byHand()
	b.copyTruncate(b.path + ".1")
	b.write(lines(records("b", 30)...))
	got, _, err := f.Next().Read(make([]byte, readBytes), true)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != lines(want...) {
		t.Errorf("got %q, want what is in the copy", short(string(got)))
	}
}

// TestLateLinesOfAnOlderFile: what is known of a file is not that of another once older
// ones are forgotten.
func TestLateLinesOfAnOlderFile(t *testing.T) {
	t.Parallel()
	b := newBench(t, formats.JSON)
	b.start()
	var want []string
	old := time.Now().Add(-time.Hour)
	for n := range remembered + 3 {
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
		appendTo(t, fmt.Sprintf("%s.%d", b.path, 200-remembered-n), fmt.Sprintf("{\"late\":%d}\n", n))
		want = append(want, fmt.Sprintf(`{"late":%d}`, n))
	}
	b.rotate(99)
	b.write("{\"last\":1}\n")
	b.wantStored(append(want, `{"last":1}`))
}
