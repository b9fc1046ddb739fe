package filesink

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/klauspost/compress/zstd"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/internal/disk/crashdisk"
	"github.com/docket-export/docket/sinks"
)

const (
	queueA = "11111111-1111-4111-8111-111111111111"
	queueB = "22222222-2222-4222-8222-222222222222"
	queueC = "33333333-3333-4333-8333-333333333333"
)

func env() sinks.Env { return sinks.Env{Name: "compliance", Log: slog.New(slog.DiscardHandler)} }

// rotating is a configuration whose files are finished at maxBytes.
func rotating(dir string, maxBytes config.Size) Config {
	c := *defaultConfig()
	c.Directory, c.Rotate.MaxBytes = dir, maxBytes
	return c
}

func mustOpen(t *testing.T, c Config, fsys disk.FS) *sink {
	t.Helper()
	s, err := open(c, env(), fsys)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() { mustClose(t, s) })
	return s
}

// watched is the file system of dir, that calls before ahead of each change. An error
// stands for the failure of the change.
func watched(dir string, before func(change, path string) error) disk.FS {
	s := &crashdisk.Steps{}
	s.Boot(disk.OS(dir), func() {})
	s.Script = func(change, path string, _ []byte) crashdisk.Fault {
		if crashdisk.IsReading(change) {
			return crashdisk.Fault{}
		}
		_, to, isRename := strings.Cut(path, " to ")
		if isRename {
			path = to
		}
		return crashdisk.Fault{Err: before(change, path)}
	}
	return s
}

func mustClose(t *testing.T, s *sink) {
	t.Helper()
	if err := s.Close(context.Background()); err != nil {
		t.Errorf("close: %v", err)
	}
}

func mustSend(t *testing.T, s *sink, b sinks.Batch) {
	t.Helper()
	if err := s.Send(context.Background(), b); err != nil {
		t.Fatalf("send: %v", err)
	}
}

// wantKind sends b and wants a failure of this kind whose text has all words.
func wantKind(t *testing.T, s *sink, b sinks.Batch, kind sinks.Kind, words ...string) {
	t.Helper()
	err := s.Send(context.Background(), b)
	checkFailure(t, err, kind, words...)
}

func checkFailure(t *testing.T, err error, kind sinks.Kind, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("got no error, want one of kind %v", kind)
	}
	if got := sinks.FailureOf(err).Kind; got != kind {
		t.Errorf("failed as %v (%v), want %v", got, err, kind)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("error %q does not say %q", err, word)
		}
	}
}

// mustFinish finishes the active file of s.
func mustFinish(t *testing.T, s *sink) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.finish(); err != nil {
		t.Fatalf("finish: %v", err)
	}
}

// record is the text of a record; seq makes it unique within its queue.
func record(queue string, seq uint64) string {
	return fmt.Sprintf(`{"queue":"%.4s","seq":%d,"pad":%q}`, queue, seq, strings.Repeat("x", int(seq%23)))
}

// batch holds the records first to last of queue.
func batch(queue string, first, last uint64) sinks.Batch {
	b := sinks.Batch{Queue: queue}
	for seq := first; seq <= last; seq++ {
		b.Items = append(b.Items, sinks.Item{Seq: seq, Record: []byte(record(queue, seq))})
	}
	return b
}

// withGaps is b with gaps.
func withGaps(b sinks.Batch, gaps ...sinks.Gap) sinks.Batch {
	b.Gaps = gaps
	return b
}

// records are the texts of batch.
func records(queue string, first, last uint64) []string {
	var list []string
	for seq := first; seq <= last; seq++ {
		list = append(list, record(queue, seq))
	}
	return list
}

// lines of a file, decompressed as its name says, without their newlines. It must
// end with one.
func lines(t *testing.T, path string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return linesOf(t, path, decompress(t, path, data))
}

func linesOf(t *testing.T, path string, data []byte) []string {
	t.Helper()
	list := strings.SplitAfter(string(data), "\n")
	if rest := list[len(list)-1]; rest != "" {
		t.Errorf("%s ends with a torn line %q", path, rest)
	}
	list = list[:len(list)-1]
	for i := range list {
		list[i] = strings.TrimSuffix(list[i], "\n")
	}
	return list
}

func decompress(t *testing.T, path string, data []byte) []byte {
	t.Helper()
	if len(data) == 0 {
		return nil // no member, no frame
	}
	var err error
	switch filepath.Ext(path) {
	case ".gz":
		var r *gzip.Reader
		if r, err = gzip.NewReader(bytes.NewReader(data)); err == nil {
			data, err = io.ReadAll(r)
		}
	case ".zst":
		var r *zstd.Decoder
		if r, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1)); err == nil {
			defer r.Close()
			data, err = r.DecodeAll(data, nil)
		}
	}
	if err != nil {
		t.Fatalf("decompress %s: %v", path, err)
	}
	return data
}

// names in dir that match pattern, sorted.
func names(t *testing.T, dir, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	list := []string{}
	for _, p := range paths {
		name, err := filepath.Rel(dir, p)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, name)
	}
	return list
}

const (
	finishedGlob = "decisions-[0-9]*.ndjson*"
	activeGlob   = activePrefix + "*"
)

// finishedFiles are the paths in dir of the finished files, in order.
func finishedFiles(t *testing.T, dir string) []string {
	t.Helper()
	list := append(names(t, dir, finishedGlob), names(t, dir, "????-??-??/"+finishedGlob)...)
	slices.SortFunc(list, func(a, b string) int { return strings.Compare(filepath.Base(a), filepath.Base(b)) })
	return list
}

// exported is what a reader of dir gets: the finished files by name, then the
// active one.
func exported(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	for _, name := range append(finishedFiles(t, dir), names(t, dir, activeGlob)...) {
		list = append(list, lines(t, filepath.Join(dir, name))...)
	}
	return list
}

func wantLines(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %s\nwant %s", what, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

// damage changes the bytes of a file in dir.
func damage(t *testing.T, dir, name string, change func([]byte) []byte) {
	t.Helper()
	path := filepath.Join(dir, name)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, change(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

func positionOf(t *testing.T, dir string) position {
	t.Helper()
	f, err := readPosition(disk.At(dir).Join(positionName))
	if err != nil || !f.sound {
		t.Fatalf("position: %+v, %v, want a sound one", f, err)
	}
	return f.position
}

var idA = uuid.MustParse(queueA)
