package filesink

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/filesink/manifest"
)

func TestBeyond(t *testing.T) {
	now := time.Date(2026, 1, 5, 10, 0, 0, 0, time.UTC)
	hours := func(bytes int64, ages ...int) (list []keptFile) {
		for _, age := range ages {
			list = append(list, keptFile{bytes: bytes, finished: now.Add(-time.Duration(age) * time.Hour)})
		}
		return list
	}
	for name, tt := range map[string]struct {
		retain Retain
		files  []keptFile
		want   []manifest.RemovalReason
	}{
		"no files":           {Retain{MaxFiles: 1, MaxAge: 1, MaxTotalBytes: 1}, nil, nil},
		"no bounds":          {Retain{}, hours(10, 9, 8, 7), nil},
		"age":                {Retain{MaxAge: config.Duration(8 * time.Hour)}, hours(10, 9, 8, 7), []manifest.RemovalReason{manifest.MaxAge, manifest.MaxAge}},
		"newest stays, age":  {Retain{MaxAge: config.Duration(time.Hour)}, hours(10, 9, 8), []manifest.RemovalReason{manifest.MaxAge}},
		"files":              {Retain{MaxFiles: 2}, hours(10, 4, 3, 2, 1), []manifest.RemovalReason{manifest.MaxFiles, manifest.MaxFiles}},
		"files, just enough": {Retain{MaxFiles: 4}, hours(10, 4, 3, 2, 1), nil},
		"bytes":              {Retain{MaxTotalBytes: 25}, hours(10, 4, 3, 2, 1), []manifest.RemovalReason{manifest.MaxTotalBytes, manifest.MaxTotalBytes}},
		"bytes, just enough": {Retain{MaxTotalBytes: 40}, hours(10, 4, 3, 2, 1), nil},
		"newest stays, size": {Retain{MaxTotalBytes: 1}, hours(10, 2, 1), []manifest.RemovalReason{manifest.MaxTotalBytes}},
		"several": {Retain{MaxAge: config.Duration(4 * time.Hour), MaxFiles: 3, MaxTotalBytes: 20}, hours(10, 4, 3, 2, 1),
			[]manifest.RemovalReason{manifest.MaxAge, manifest.MaxTotalBytes}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tt.retain.beyond(tt.files, now); !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// retaining keeps one finished file; each batch finishes the one before.
func retaining(dir string) Config {
	c := rotating(dir, 1)
	c.Retain.MaxFiles = 1
	return c
}

// TestRemoval wants the oldest to go, in the manifest too, at a restart as well,
// and nothing else.
func TestRemoval(t *testing.T) {
	dir := t.TempDir()
	stranger := finishedName(1, 1, midnight) // in no line of the manifest
	c := rotating(dir, 1)
	s := mustOpen(t, c, nil)
	writeFile(t, filepath.Join(dir, stranger), "a file of somebody else\n")
	for seq := uint64(1); seq <= 5; seq++ {
		mustSend(t, s, batch(queueA, seq, seq))
	}
	mustClose(t, s)
	remove(t, dir, positionOfSpan(t, dir, "2-2"))

	c.Retain.MaxFiles = 2
	s = mustOpen(t, c, nil)
	if got, want := spans(t, dir), []string{"1-1", "3-3", "4-4"}; !slices.Equal(got, want) {
		t.Errorf("finished files %v, want %v, the first being somebody else's", got, want)
	}
	mustSend(t, s, batch(queueA, 6, 6))
	if got, want := spans(t, dir), []string{"1-1", "4-4", "5-5"}; !slices.Equal(got, want) {
		t.Errorf("finished files %v, want %v, the first being somebody else's", got, want)
	}
	remove(t, dir, stranger)
	var removed []string
	a := auditOf(t, dir)
	for _, r := range a.removed {
		removed = append(removed, fmt.Sprintf("%.30s %s", r.Name, r.Reason))
	}
	if want := []string{"decisions-00000000000000000001 MaxFiles", "decisions-00000000000000000003 MaxFiles"}; !slices.Equal(removed, want) {
		t.Errorf("the manifest says %v, want %v", removed, want)
	}
	if len(a.problems) != 1 || !strings.Contains(a.problems[0], "00002") {
		t.Errorf("problems %v, want one: the file that somebody else took away", a.problems)
	}
}

// TestDeletes wants the files counted that a start deletes, and nothing changed by that.
func TestDeletes(t *testing.T) {
	var _ sinks.Deleter = (*Config)(nil)
	dir := t.TempDir()
	c := rotating(dir, 1)
	c.Retain.MaxFiles = 1
	wantDeletes := func(when string, want int) {
		t.Helper()
		before := directoryContent(t, dir)
		files, bytes, err := c.Deletes()
		if err != nil || files != want || (bytes > 0) != (want > 0) {
			t.Errorf("%s: got %d files of %d bytes, %v, want %d files", when, files, bytes, err, want)
		}
		if after := directoryContent(t, dir); after != before {
			t.Errorf("%s: the directory was changed: got %q, want %q", when, after, before)
		}
	}
	wantDeletes("before there is an export", 0)
	c.Retain = Retain{}
	s := mustOpen(t, c, nil)
	for seq := uint64(1); seq <= 6; seq++ {
		mustSend(t, s, batch(queueA, seq, seq))
	}
	mustClose(t, s)
	remove(t, dir, positionOfSpan(t, dir, "2-2"))
	wantDeletes("without limits", 0)

	c.Retain.MaxFiles = 2
	wantDeletes("of four files that are there", 2)
	mustClose(t, mustOpen(t, c, nil))
	if got, want := spans(t, dir), []string{"4-4", "5-5"}; !slices.Equal(got, want) {
		t.Errorf("finished files %v, want %v", got, want)
	}
	wantDeletes("after they are deleted", 0)

	c.Directory = filepath.Join(dir, manifest.FileName)
	if _, _, err := c.Deletes(); sinks.FailureOf(err).Kind != sinks.Misconfigured {
		t.Errorf("a file in place of the directory: got %v", err)
	}
}

// positionOfSpan is the name of the finished file with these seqs.
func positionOfSpan(t *testing.T, dir, span string) string {
	t.Helper()
	i := slices.Index(spans(t, dir), span)
	if i < 0 {
		t.Fatalf("no file %s among %v", span, spans(t, dir))
	}
	return finishedFiles(t, dir)[i]
}

// undeletable opens a sink that keeps one finished file. While fails is set, which it is, no file can be deleted whose name
// begins with prefix.
func undeletable(t *testing.T, dir, prefix string, fails *atomic.Bool, said io.Writer) *sink {
	t.Helper()
	fails.Store(true)
	e := sinks.Env{Name: "compliance", Log: slog.New(slog.NewTextHandler(said, nil))}
	s, err := open(retaining(dir), e, watched(dir, func(change, path string) error {
		if fails.Load() && change == "remove" && strings.HasPrefix(filepath.Base(path), prefix) {
			return &fs.PathError{Op: change, Path: path, Err: unix.EPERM}
		}
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestRemovalFails wants a file that cannot be removed to hold up nothing, and to
// be tried again.
func TestRemovalFails(t *testing.T) {
	dir := t.TempDir()
	var fails atomic.Bool
	var said bytes.Buffer
	s := undeletable(t, dir, "decisions-0", &fails, &said) // any finished file
	defer mustClose(t, s)
	for seq := uint64(1); seq <= 4; seq++ {
		mustSend(t, s, batch(queueA, seq, seq))
	}
	if got, want := spans(t, dir), []string{"1-1", "2-2", "3-3"}; !slices.Equal(got, want) {
		t.Errorf("finished files %v, want %v", got, want)
	}
	if n := strings.Count(said.String(), "operation not permitted"); n == 0 {
		t.Errorf("nothing is said of it:\n%s", said.String())
	}
	fails.Store(false)
	mustSend(t, s, batch(queueA, 5, 5))
	if got, want := spans(t, dir), []string{"4-4"}; !slices.Equal(got, want) {
		t.Errorf("finished files %v, want %v", got, want)
	}
	mustAudit(t, dir)
}

// TestFilePutBack wants a removed file that somebody puts back to stay.
func TestFilePutBack(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, retaining(dir), nil)
	mustSend(t, s, batch(queueA, 1, 1))
	mustSend(t, s, batch(queueA, 2, 2))
	name := finishedFiles(t, dir)[0]
	content, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	mustSend(t, s, batch(queueA, 3, 3))
	mustClose(t, s)
	writeFile(t, filepath.Join(dir, name), string(content))
	s = mustOpen(t, retaining(dir), nil)
	mustSend(t, s, batch(queueA, 4, 4))
	if got, want := spans(t, dir), []string{"1-1", "3-3"}; !slices.Equal(got, want) {
		t.Errorf("finished files %v, want %v", got, want)
	}
}

// TestNamesInTheManifest wants a manifest that somebody has edited not to name
// files for removal that are none of the sink's.
func TestNamesInTheManifest(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, rotating(dir, 1), nil)
	for seq := uint64(1); seq <= 3; seq++ {
		mustSend(t, s, batch(queueA, seq, seq))
	}
	mustClose(t, s)
	name := positionOfSpan(t, dir, "1-1")
	other := "notes" + strings.Repeat("x", len(name)-len("notes"))
	writeFile(t, filepath.Join(dir, other), "mine")
	damage(t, dir, manifest.FileName, func(b []byte) []byte { return bytes.Replace(b, []byte(name), []byte(other), 1) })
	s = mustOpen(t, retaining(dir), nil)
	mustSend(t, s, batch(queueA, 4, 4))
	if _, err := os.Stat(filepath.Join(dir, other)); err != nil {
		t.Errorf("a file that the sink did not write: %v", err)
	}
	if got, want := spans(t, dir), []string{"1-1", "3-3"}; !slices.Equal(got, want) {
		t.Errorf("finished files %v, want %v", got, want)
	}
	for _, r := range auditOf(t, dir).removed {
		if r.Name == other {
			t.Errorf("the manifest says that %s was removed", other)
		}
	}
}

// DiskBytes is never exceeded by the records of an export, at any step, and comes close.
func TestDiskBytes(t *testing.T) {
	const most = 130 // bytes of the longest batch
	for name, c := range map[string]Config{
		"by bytes":              {Rotate: Rotate{MaxBytes: 1000}, Retain: Retain{MaxTotalBytes: 3000}},
		"by files":              {Rotate: Rotate{MaxBytes: 1000}, Retain: Retain{MaxFiles: 3}},
		"files below a batch":   {Rotate: Rotate{MaxBytes: 10}, Retain: Retain{MaxFiles: 3}},
		"the newest file stays": {Rotate: Rotate{MaxBytes: 1000}, Retain: Retain{MaxTotalBytes: 1}},
	} {
		dir := t.TempDir()
		c.Directory = dir
		bound, key := c.DiskBytes(most)
		if key != "" {
			t.Fatalf("%s: got that %s bounds nothing", name, key)
		}
		var peak int64
		s := mustOpen(t, c, watched(dir, func(_, _ string) error {
			peak = max(peak, recordBytes(t, dir))
			return nil
		}))
		length := 0
		for seq := uint64(1); seq <= 100; seq += 2 {
			b := batch(queueA, seq, seq+1)
			length = 0
			for _, item := range b.Items {
				length += len(item.Record) + 1
			}
			mustSend(t, s, b)
		}
		mustClose(t, s)
		if length > most {
			t.Fatalf("a batch has %d bytes, want %d at most", length, most)
		}
		if peak > bound || peak < bound/3 {
			t.Errorf("%s: up to %d bytes were in the directory, want no more than %d and not far less", name, peak, bound)
		}
	}
	for want, c := range map[string]Config{
		"retain.maxTotalBytes": {Rotate: Rotate{MaxBytes: 1000}, Retain: Retain{MaxAge: 1}},
		"rotate.maxBytes":      {Retain: Retain{MaxFiles: 1}},
	} {
		if bytes, key := c.DiskBytes(most); bytes != 0 || key != want {
			t.Errorf("%+v: got %d, %q, want that %s bounds it", c, bytes, key, want)
		}
	}
}

// recordBytes is how much records have in dir.
func recordBytes(t *testing.T, dir string) (n int64) {
	t.Helper()
	for _, name := range names(t, dir, "*.ndjson") {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil {
			n += info.Size()
		}
	}
	return n
}
