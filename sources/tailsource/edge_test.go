package tailsource

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sources/tailsource/formats"
)

func TestConfig(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		config Config
		want   []string // what is wrong
	}{
		"good":           {Config{Path: "/var/log/a.log", Format: formats.CRI}, nil},
		"empty":          {Config{}, []string{"path", "format"}},
		"a directory":    {Config{Path: "/var/log/", Format: formats.JSON}, nil},
		"a pattern":      {Config{Path: "/var/log/*.log", Format: formats.JSON}, nil},
		"every level":    {Config{Path: "/var/**/*.log", Format: formats.JSON}, []string{"path"}},
		"half a pattern": {Config{Path: "/var/log/[a.log", Format: formats.JSON}, []string{"path"}},
		"a NUL byte":     {Config{Path: "/var/log/\x00", Format: formats.JSON}, []string{"path"}},
		"unknown format": {Config{Path: "a.log", Format: "klog"}, []string{"format"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, p := range test.config.Validate() {
				got = append(got, problemPath(p))
			}
			if fmt.Sprint(got) != fmt.Sprint(test.want) {
				t.Errorf("got problems of %v, want %v", got, test.want)
			}
		})
	}
}

func problemPath(p config.Problem) string { return p.Path }

// TestContainerLogs is what a kubelet does: a link to a link to a file, which rotates
// to a dated name, and a new life of the container with a file and links of its own.
func TestContainerLogs(t *testing.T) {
	t.Parallel()
	b := newBench(t, formats.CRI)
	pods := filepath.Join(b.dir, "pods", "shop_web_uid", "app")
	containers := filepath.Join(b.dir, "containers")
	runtime := filepath.Join(b.dir, "runtime")
	for _, dir := range []string{pods, containers, runtime} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(containers, "web_shop_app-1.log")
	b.path = filepath.Join(runtime, "0.log")
	b.config.Path = link
	b.start()
	line := func(tag, text string) string {
		return "2026-01-05T10:04:07.123456789Z stdout " + tag + " " + text + "\n"
	}

	b.write(line("F", `{"n":1}`))
	symlink(t, filepath.Join(pods, "0.log"), link)
	symlink(t, b.path, filepath.Join(pods, "0.log"))
	b.wantStored([]string{`{"n":1}`})

	b.write(line("P", `{"n":`) + line("P", `2,"over":`))
	if err := os.Rename(b.path, b.path+".20260105-100407"); err != nil {
		t.Fatal(err)
	}
	b.write(line("F", `"rotation"}`) + line("F", `{"n":3}`) + line("P", `{"n":"cut by the end of the container`))
	want := []string{`{"n":1}`, `{"n":2,"over":"rotation"}`, `{"n":3}`}
	b.wantStored(want)

	b.path = filepath.Join(runtime, "1.log")
	b.write(line("F", `{"n":4}`))
	symlink(t, b.path, filepath.Join(pods, "1.log"))
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	symlink(t, filepath.Join(pods, "1.log"), link)
	// The intake of the test takes for JSON what begins so; the real one refuses it.
	b.wantStored(append(want, `{"n":"cut by the end of the container`, `{"n":4}`))
	if lost := b.source.Report().Lost; lost != 0 {
		t.Errorf("got %d lost, want 0", lost)
	}
}

func symlink(t *testing.T, target, name string) {
	t.Helper()
	if err := os.Symlink(target, name); err != nil {
		t.Fatal(err)
	}
}

// TestAnUnfinishedLastLine waits for its end; once its file is replaced it is a line.
func TestAnUnfinishedLastLine(t *testing.T) {
	t.Parallel()
	b := newBench(t, formats.JSON)
	b.start()
	b.write("{\"n\":1}\n{\"n\":2}")
	b.wantStored([]string{`{"n":1}`})
	b.write("\n{\"n\":3}")
	b.wantStored([]string{`{"n":1}`, `{"n":2}`})
	b.rotate(9)
	b.write("{\"n\":4}\n{\"n\":")
	b.wantStored([]string{`{"n":1}`, `{"n":2}`, `{"n":3}`, `{"n":4}`})
	b.rotate(9)
	b.write("{\"n\":6}\n")
	// The intake of the test takes for JSON what begins so; the real one refuses it.
	b.wantStored([]string{`{"n":1}`, `{"n":2}`, `{"n":3}`, `{"n":4}`, `{"n":`, `{"n":6}`})
}

func TestAFileRemovedAndMadeAgain(t *testing.T) {
	t.Parallel()
	for _, running := range []bool{true, false} {
		t.Run(fmt.Sprintf("running %v", running), func(t *testing.T) {
			b := newBench(t, formats.JSON)
			b.start()
			same := records("same", 30) // the same lines again: they are other decisions
			var want []string
			for range 3 {
				b.write(lines(same...))
				want = append(want, same...)
				b.wantStored(want)
				if !running {
					b.stop()
				}
				if err := os.Remove(b.path); err != nil {
					t.Fatal(err)
				}
				if !running {
					b.write(lines(same[:1]...))
					want = append(want, same[0])
					b.start()
					b.wantStored(want)
				}
			}
		})
	}
}

// TestTruncatedWithTheSameBeginning: what the file begins with does not tell; what was
// read last does.
func TestTruncatedWithTheSameBeginning(t *testing.T) {
	t.Parallel()
	b := newBench(t, formats.JSON)
	b.start()
	banner := `{"banner":"` + strings.Repeat("=", 2*alike) + `"}`
	before := append([]string{banner}, records("before", 100)...)
	b.write(lines(before...))
	b.wantStored(before)
	after := append([]string{banner}, records("after", 300)...)
	if err := os.WriteFile(b.path, []byte(lines(after...)), 0o644); err != nil {
		t.Fatal(err)
	}
	b.wantStored(concat(before, after))
}

// TestAHugeHole is skipped, and positions behind it are kept.
func TestAHugeHole(t *testing.T) {
	t.Parallel()
	b := newBench(t, formats.JSON)
	b.start()
	var want []string
	for n := range 3 {
		b.write("")
		if err := os.Truncate(b.path, int64(n)*5<<30); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			want = append(want, fmt.Sprintf(`{"n":%d}`, len(want)))
			b.write(want[len(want)-1] + "\n")
			b.wantStored(want)
			b.stop()
			b.start()
		}
	}
	if known := b.in.Known(); known != 0 {
		t.Errorf("got %d lines that were sent again, want 0", known)
	}
}

func TestWhatIsLostIsCounted(t *testing.T) {
	t.Parallel()
	t.Run("gone while docket is down", func(t *testing.T) {
		b := newBench(t, formats.JSON)
		b.start()
		want := records("a", 10)
		b.write(lines(want...))
		b.wantStored(want)
		b.stop()
		if err := os.Remove(b.path); err != nil {
			t.Fatal(err)
		}
		b.write("{}\n")
		b.start()
		b.wantStored(append(want, "{}"))
		if lost := b.source.Report().Lost; lost != 1 {
			t.Errorf("got %d lost, want 1", lost)
		}
	})
	t.Run("overwritten while the queue is full", func(t *testing.T) {
		b := newBench(t, formats.JSON)
		b.in.Fill()
		// All of it is there at the first look: a file that is seen empty cannot be told from the next.
		b.write(lines(records("a", 3000)...) + strings.Repeat("{\"more\":1}\n", 1<<16))
		b.start()
		b.await("a part of it read", func() bool { return b.in.Waiting() > 0 })
		if err := os.WriteFile(b.path, []byte("{}\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		b.awaitHeld(2)
		b.in.Drain()
		b.await("the new contents", func() bool { s := b.stored(); return len(s) > 0 && s[len(s)-1] == "{}" })
		if r := b.source.Report(); r.Lost != 1 || r.LostLines != 0 || r.LostBytes == 0 {
			t.Errorf("got %+v, want 1 lost and its bytes", r)
		}
	})
}

// TestNoFile: what has the name and is no file is not read, and does not stop the source.
func TestNoFile(t *testing.T) {
	t.Parallel()
	b := newBench(t, formats.JSON)
	if err := os.Mkdir(b.path, 0o755); err != nil {
		t.Fatal(err)
	}
	b.start()
	b.awaitTrouble("no file matches")
	if err := os.Remove(b.path); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(b.path, 0o644); err != nil {
		t.Fatal(err)
	}
	b.awaitTrouble("not a regular file")
	if err := os.Remove(b.path); err != nil {
		t.Fatal(err)
	}
	symlink(t, b.path, b.path)
	b.awaitTrouble("too many levels of symbolic links")
	if err := os.Remove(b.path); err != nil {
		t.Fatal(err)
	}
	b.write("{}\n")
	b.wantStored([]string{"{}"})
	b.awaitTrouble("")
}
