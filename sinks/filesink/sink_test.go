package filesink

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sinks"
)

func TestRotateBySize(t *testing.T) {
	two := config.Size(len(record(queueA, 1)) + len(record(queueA, 2)) + 2)
	for name, tt := range map[string]struct {
		maxBytes config.Size
		batches  [][2]uint64 // first and last seq
		want     []string    // "first-last" of the finished files
	}{
		"exactly full":         {two, [][2]uint64{{1, 1}, {2, 2}, {3, 3}}, []string{"1-2"}},
		"one byte too many":    {two - 1, [][2]uint64{{1, 1}, {2, 2}, {3, 3}}, []string{"1-1", "2-2"}},
		"batch beyond maxSize": {two, [][2]uint64{{1, 5}, {6, 6}}, []string{"1-5"}},
		"never":                {0, [][2]uint64{{1, 5}, {6, 500}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := mustOpen(t, rotating(dir, tt.maxBytes), disk{})
			for _, b := range tt.batches {
				mustSend(t, s, batch(queueA, b[0], b[1]))
			}
			if got := spans(t, dir); !slices.Equal(got, tt.want) {
				t.Errorf("finished files %v, want %v", got, tt.want)
			}
			checkNames(t, dir)
			wantLines(t, "exported", exported(t, dir), records(queueA, 1, tt.batches[len(tt.batches)-1][1]))
		})
	}
}

func TestRotateByAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		c := rotating(dir, 0)
		c.Rotate.MaxAge = config.Duration(time.Hour)
		s := mustOpen(t, c, disk{})
		time.Sleep(2 * time.Hour) // the age is that of the first record
		mustSend(t, s, batch(queueA, 1, 1))
		time.Sleep(time.Hour - 1)
		mustSend(t, s, batch(queueA, 2, 2))
		mustClose(t, s)

		s = mustOpen(t, c, disk{}) // and outlives a restart
		time.Sleep(time.Nanosecond)
		mustSend(t, s, batch(queueA, 3, 3))
		want := []string{finishedName(1, 2, time.Now())}
		if got := names(t, dir, finishedPattern); !slices.Equal(got, want) {
			t.Errorf("finished files %v, want %v", got, want)
		}
		wantLines(t, "active file", lines(t, filepath.Join(dir, activeName)), records(queueA, 3, 3))
	})
}

func TestFinishedName(t *testing.T) {
	at := time.Date(2026, 1, 5, 11, 4, 7, 999, time.FixedZone("CET", 3600))
	want := "decisions-00000000000000000001-00000000000000000042-20260105T100407Z.ndjson"
	if got := finishedName(1, 42, at); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestNamesAreNotTakenTwice finishes files of three queues with the same seqs in
// the same second.
func TestNamesAreNotTakenTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := mustOpen(t, rotating(dir, 0), disk{})
		for _, queue := range []string{queueA, queueB, queueA, queueB} {
			mustSend(t, s, batch(queue, 1, 2))
		}
		want := []string{finishedName(1, 2, time.Now()), finishedName(1, 2, time.Now().Add(time.Second)), finishedName(1, 2, time.Now().Add(2*time.Second))}
		if got := names(t, dir, finishedPattern); !slices.Equal(got, want) {
			t.Errorf("finished files %v, want %v", got, want)
		}
		both := slices.Concat(records(queueA, 1, 2), records(queueB, 1, 2))
		wantLines(t, "exported", exported(t, dir), slices.Concat(both, both))
	})
}

// TestNewQueue restarts the seqs, which must not make records pass for known.
func TestNewQueue(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, rotating(dir, 0), disk{})
	mustSend(t, s, batch(queueA, 1, 9))
	mustSend(t, s, batch(queueB, 1, 3))
	mustSend(t, s, batch(queueB, 1, 4))
	wantLines(t, "exported", exported(t, dir), slices.Concat(records(queueA, 1, 9), records(queueB, 1, 4)))
	if p := positionOf(t, dir); p.queue != idB || p.first != 1 || p.last != 4 {
		t.Errorf("position %+v, want seqs 1 to 4 of queue B", p)
	}
}

func TestLock(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, rotating(dir, 0), disk{})
	_, err := open(rotating(dir, 0), env(), disk{})
	checkFailure(t, err, sinks.Misconfigured, filepath.Join(dir, lockName), fmt.Sprintf("process %d", os.Getpid()))
	mustSend(t, s, batch(queueA, 1, 1)) // the first is not disturbed
	mustClose(t, s)
	mustOpen(t, rotating(dir, 0), disk{})
}

func TestOpenFailures(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	loop := filepath.Join(t.TempDir(), "loop")
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		dir   string
		words []string
	}{
		"a file in its place":      {file, []string{file, "not a directory", "move away"}},
		"a file among its parent":  {filepath.Join(file, "a", "b"), []string{file, "not a directory"}},
		"symbolic links in a loop": {loop, []string{loop, "move away"}},
		"name too long":            {filepath.Join(t.TempDir(), strings.Repeat("x", 300)), []string{"name too long"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := open(rotating(tt.dir, 0), env(), disk{})
			checkFailure(t, err, sinks.Misconfigured, append(tt.words, "file sink: ")...)
		})
	}
}

func TestFailureKinds(t *testing.T) {
	for errno, want := range map[unix.Errno]sinks.Kind{
		unix.EACCES: sinks.Misconfigured,
		unix.EPERM:  sinks.Misconfigured,
		unix.EROFS:  sinks.Misconfigured,
		unix.ENOENT: sinks.Misconfigured,
		unix.ENOSPC: sinks.Transient,
		unix.EDQUOT: sinks.Transient,
		unix.EFBIG:  sinks.Transient,
		unix.EIO:    sinks.Transient,
		unix.EMFILE: sinks.Transient,
	} {
		t.Run(unix.ErrnoName(errno), func(t *testing.T) {
			err := failure("append a batch", &fs.PathError{Op: "write", Path: "/export/x", Err: errno})
			checkFailure(t, err, want, "file sink: append a batch: write /export/x: "+errno.Error())
		})
	}
}

// TestDiskFull fills the disk in the middle of a batch and wants the bytes that
// were written to be gone at once: they may be what fills it.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, rotating(dir, 0), disk{})
	mustSend(t, s, batch(queueA, 1, 2))
	stop := limitFiles(t, dir)
	wantKind(t, s, batch(queueA, 3, 4), sinks.Transient, activeName, "too large")
	stop()
	wantLines(t, "exported before the retry", exported(t, dir), records(queueA, 1, 2))
	mustSend(t, s, batch(queueA, 3, 6))
	wantLines(t, "exported", exported(t, dir), records(queueA, 1, 6))
	if got := spans(t, dir); got != nil {
		t.Errorf("finished files %v, want the active one to stay in use", got)
	}
}

// TestFailedSync wants nothing to be written again to a file whose sync failed.
func TestFailedSync(t *testing.T) {
	dir, fail := t.TempDir(), false
	s := mustOpen(t, rotating(dir, 0), disk{before: func(change, path string) error {
		if fail && change == "sync" && filepath.Base(path) == activeName {
			return &fs.PathError{Op: change, Path: path, Err: unix.EIO}
		}
		return nil
	}})
	mustSend(t, s, batch(queueA, 1, 2))
	fail = true
	wantKind(t, s, batch(queueA, 3, 4), sinks.Transient, activeName, "check the disk")
	wantLines(t, "exported before the retry", exported(t, dir), records(queueA, 1, 2))
	fail = false
	mustSend(t, s, batch(queueA, 3, 4))
	if got, want := spans(t, dir), []string{"1-2"}; !slices.Equal(got, want) {
		t.Errorf("finished files %v, want %v", got, want)
	}
	wantLines(t, "exported", exported(t, dir), records(queueA, 1, 4))
}

func TestModes(t *testing.T) {
	parent := filepath.Join(t.TempDir(), "a")
	dir := filepath.Join(parent, "b")
	s := mustOpen(t, rotating(dir, 1), disk{})
	mustSend(t, s, batch(queueA, 1, 1))
	mustSend(t, s, batch(queueA, 2, 2))
	want := map[string]fs.FileMode{parent: 0o700, dir: 0o700}
	for _, name := range append(names(t, dir, "*"), lockName) {
		want[filepath.Join(dir, name)] = 0o600
	}
	for path, mode := range want {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != mode {
			t.Errorf("%s has mode %o, want %o", path, got, mode)
		}
	}
}

func TestValidate(t *testing.T) {
	for name, tt := range map[string]struct {
		config Config
		want   string
	}{
		"defaults":     {Config{Directory: "/export", Rotate: defaultConfig().Rotate}, ""},
		"no rotation":  {Config{Directory: "export"}, ""},
		"no directory": {Config{}, "directory: is required: the directory to write the files to"},
		"negative": {Config{Directory: "x", Rotate: Rotate{MaxBytes: -1, MaxAge: -1}},
			"rotate.maxBytes: must not be negative\nrotate.maxAge: must not be negative"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tt.config.Validate().Error(); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	c := Definition.NewConfig().(*Config)
	if c.Directory != "" || c.Rotate.MaxBytes.String() != "64Mi" || c.Rotate.MaxAge.String() != "1h" {
		t.Errorf("defaults %+v, want rotation at 64Mi and 1h", c)
	}
	if p := Definition.Batch.Validate(); p != nil {
		t.Errorf("default batch: %v", p)
	}
}

// TestSendAllocations wants the cost of a batch not to rise with its records.
func TestSendAllocations(t *testing.T) {
	s := mustOpen(t, rotating(t.TempDir(), 0), disk{})
	seq := uint64(1)
	measure := func(n int) float64 {
		b := batch(queueA, 1, uint64(n))
		return testing.AllocsPerRun(20, func() {
			for i := range b.Items {
				b.Items[i].Seq, seq = seq, seq+1
			}
			mustSend(t, s, b)
		})
	}
	if one, many := measure(1), measure(1000); many > one {
		t.Errorf("a batch of 1000 makes %v allocations, one of 1 makes %v", many, one)
	}
}

func BenchmarkSend(b *testing.B) {
	for _, n := range []int{1, 64, 4096} {
		b.Run(fmt.Sprintf("records=%d", n), func(b *testing.B) {
			s, err := open(rotating(b.TempDir(), 64<<20), env(), disk{})
			if err != nil {
				b.Fatal(err)
			}
			items := batch(queueA, 1, uint64(n))
			for i := range items.Items {
				items.Items[i].Record = []byte(`{"a":"` + strings.Repeat("x", 1024-8) + `"}`)
			}
			seq := uint64(1)
			b.SetBytes(int64(items.Size()))
			b.ReportAllocs()
			for b.Loop() {
				for i := range items.Items {
					items.Items[i].Seq, seq = seq, seq+1
				}
				if err := s.Send(context.Background(), items); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
			if err := s.Close(context.Background()); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// spans are the seqs in the names of the finished files, as "1-3".
func spans(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	for _, name := range names(t, dir, finishedPattern) {
		var first, last uint64
		if _, err := fmt.Sscanf(name, "decisions-%020d-%020d-", &first, &last); err != nil {
			t.Fatalf("name %s: %v", name, err)
		}
		list = append(list, fmt.Sprintf("%d-%d", first, last))
	}
	return list
}
