package filesink

import (
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
	"github.com/docket-export/docket/internal/testfull"
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
			s := mustOpen(t, rotating(dir, tt.maxBytes), nil)
			for _, b := range tt.batches {
				mustSend(t, s, batch(queueA, b[0], b[1]))
			}
			if got := spans(t, dir); !slices.Equal(got, tt.want) {
				t.Errorf("finished files %v, want %v", got, tt.want)
			}
			mustAudit(t, dir)
			wantLines(t, "exported", exported(t, dir), records(queueA, 1, tt.batches[len(tt.batches)-1][1]))
		})
	}
}

func TestRotateByAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		c := rotating(dir, 0)
		c.Rotate.MaxAge = config.Duration(time.Hour)
		s := mustOpen(t, c, nil)
		time.Sleep(2 * time.Hour) // the age is that of the first record
		mustSend(t, s, batch(queueA, 1, 1))
		time.Sleep(time.Hour - 1)
		mustSend(t, s, batch(queueA, 2, 2))
		mustClose(t, s)

		s = mustOpen(t, c, nil) // and outlives a restart
		time.Sleep(time.Nanosecond)
		mustSend(t, s, batch(queueA, 3, 3))
		want := []string{finishedName(1, 2, time.Now())}
		if got := names(t, dir, finishedGlob); !slices.Equal(got, want) {
			t.Errorf("finished files %v, want %v", got, want)
		}
		wantLines(t, "active file", lines(t, filepath.Join(dir, activePrefix)), records(queueA, 3, 3))
	})
}

// finishedName is the name of a plain file with the records first to last.
func finishedName(first, last uint64, at time.Time) string {
	return position{file: file{first: first, lastRecord: last}}.finishedName(at)
}

// TestNamesAreNotTakenTwice finishes files of three queues with the same seqs in
// the same second. What comes again of one of them later is recognised.
func TestNamesAreNotTakenTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := mustOpen(t, rotating(dir, 0), nil)
		for _, queue := range []string{queueA, queueB, queueC, queueA, queueB} {
			mustSend(t, s, batch(queue, 1, 2))
		}
		mustSend(t, s, batch(queueB, 3, 3))
		want := []string{finishedName(1, 2, time.Now()), finishedName(1, 2, time.Now().Add(time.Second)), finishedName(1, 2, time.Now().Add(2*time.Second))}
		if got := names(t, dir, finishedGlob); !slices.Equal(got, want) {
			t.Errorf("finished files %v, want %v", got, want)
		}
		wantLines(t, "exported", exported(t, dir), slices.Concat(records(queueA, 1, 2), records(queueB, 1, 2), records(queueC, 1, 2), records(queueB, 3, 3)))
	})
}

// TestLateItems wants records that were accepted to be recognised however they
// come, and a queue of before to be recognised when it comes back.
func TestLateItems(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, rotating(dir, 0), nil)
	mustSend(t, s, batch(queueA, 1, 9))
	for _, late := range []sinks.Late{sinks.Redriven, sinks.Replayed} {
		b := batchOf(t, "2 5 7")
		for i := range b.Items {
			b.Items[i].Late = late
		}
		mustSend(t, s, b)
	}
	mustSend(t, s, batch(queueB, 1, 2))
	mustSend(t, s, batch(queueA, 8, 10))
	got := exported(t, dir)
	slices.Sort(got) // names of two queues do not sort in the order of delivery
	want := slices.Concat(records(queueA, 1, 10), records(queueB, 1, 2))
	slices.Sort(want)
	wantLines(t, "exported", got, want)
	mustAudit(t, dir)
}

func TestLock(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, rotating(dir, 0), nil)
	_, err := open(rotating(dir, 0), env(), nil)
	checkFailure(t, err, sinks.Misconfigured, filepath.Join(dir, lockName), fmt.Sprintf("process %d", os.Getpid()))
	mustSend(t, s, batch(queueA, 1, 1)) // the first is not disturbed
	mustClose(t, s)
	mustOpen(t, rotating(dir, 0), nil)
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
			_, err := open(rotating(tt.dir, 0), env(), nil)
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
	if !testfull.Alone(t) {
		return
	}
	dir := t.TempDir()
	s := mustOpen(t, rotating(dir, 0), nil)
	mustSend(t, s, batch(queueA, 1, 2))
	stop := limitFiles(t, dir)
	wantKind(t, s, batch(queueA, 3, 4), sinks.Transient, activePrefix, "too large")
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
	s := mustOpen(t, rotating(dir, 0), watched(dir, func(change, path string) error {
		if fail && change == "sync" && filepath.Base(path) == activePrefix {
			return &fs.PathError{Op: change, Path: path, Err: unix.EIO}
		}
		return nil
	}))
	mustSend(t, s, batch(queueA, 1, 2))
	fail = true
	wantKind(t, s, batch(queueA, 3, 4), sinks.Transient, activePrefix, "check the disk")
	wantLines(t, "exported before the retry", exported(t, dir), records(queueA, 1, 2))
	fail = false
	mustSend(t, s, batch(queueA, 3, 4))
	if got, want := spans(t, dir), []string{"1-2"}; !slices.Equal(got, want) {
		t.Errorf("finished files %v, want %v", got, want)
	}
	wantLines(t, "exported", exported(t, dir), records(queueA, 1, 4))
}

func TestValidate(t *testing.T) {
	valid := *defaultConfig()
	valid.Directory = "/export"
	for name, tt := range map[string]struct {
		config Config
		want   string
	}{
		"defaults":     {valid, ""},
		"no rotation":  {Config{Directory: "export", Compress: None}, ""},
		"no directory": {Config{Compress: Gzip}, "directory: is required: the directory to write the files to"},
		"negative": {
			Config{Directory: "x", Compress: Zstd, Rotate: Rotate{MaxBytes: -1, MaxAge: -1}, Retain: Retain{MaxAge: -1, MaxFiles: -1, MaxTotalBytes: -1}},
			"rotate.maxBytes: must not be negative\nrotate.maxAge: must not be negative\nretain.maxAge: must not be negative\n" +
				"retain.maxFiles: must not be negative\nretain.maxTotalBytes: must not be negative",
		},
		"no key": {Config{Directory: "x", Compress: Gzip, Signature: &Signature{}},
			"signature.keyFile: is required: an Ed25519 private key, made by docket keygen"},
		"choices": {Config{Directory: "x", Compress: "lz4"},
			"compress: must be none, gzip or zstd, not \"lz4\""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tt.config.Validate().Error(); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// spans are the seqs in the names of the finished files, as "1-3".
func spans(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	for _, name := range finishedFiles(t, dir) {
		var first, last uint64
		if _, err := fmt.Sscanf(filepath.Base(name), "decisions-%020d-%020d-", &first, &last); err != nil {
			t.Fatalf("name %s: %v", name, err)
		}
		list = append(list, fmt.Sprintf("%d-%d", first, last))
	}
	return list
}

// limitFiles lets a write end in the middle of the next record of the active file in dir.
func limitFiles(t *testing.T, dir string) (stop func()) {
	t.Helper()
	info, err := os.Stat(filepath.Join(dir, activePrefix))
	if err != nil {
		t.Fatal(err)
	}
	return testfull.Limit(t, info.Size()+10)
}
