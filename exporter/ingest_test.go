package exporter

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/sources"
)

// intakeTest is an ingest on a real queue.
type intakeTest struct {
	intake
	dir  string
	gaps uint64
}

func newIntake(t *testing.T, opts queue.Options) *intakeTest {
	t.Helper()
	q, err := queue.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	in := &intakeTest{dir: opts.Directory}
	in.ingest = &ingest{
		queue:          q,
		maxRecordBytes: 1000,
		refused:        &refusedLog{dir: disk.At(opts.Directory).Join("refused"), log: slog.New(slog.DiscardHandler)},
		log:            slog.New(slog.DiscardHandler),
		refusing:       make(chan struct{}, 1),
		gaps:           func(_ string, n uint64) { in.gaps += n },
		live:           map[queue.Producer]*session{},
		own:            &ownRecords{q},
		buffers:        newSpareBuffers(),
	}
	t.Cleanup(func() { in.close(t) })
	return in
}

func (in *intakeTest) close(t *testing.T) {
	t.Helper()
	if err := in.queue.Close(context.Background()); err != nil {
		t.Errorf("close queue: %v", err)
	}
	if err := in.refused.close(); err != nil {
		t.Errorf("close refused log: %v", err)
	}
}

// receipts collects what a session settles.
type receipts struct {
	mu  sync.Mutex
	all []sources.Receipt
}

func (r *receipts) add(x sources.Receipt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, x)
}

func (r *receipts) through() (n uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range r.all {
		n = max(n, x.Through)
	}
	return n
}

// refused returns "number:reason" of every refusal.
func (r *receipts) refused() (list []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range r.all {
		for _, f := range x.Refused {
			list = append(list, fmt.Sprintf("%d:%s", f.Number, f.Reason))
		}
	}
	return list
}

func (in *intakeTest) session(t *testing.T, producer string, next uint64) (sources.Session, uint64, *receipts) {
	t.Helper()
	r := &receipts{}
	s, acked, err := in.Open(t.Context(), sources.Opening{Source: "test", Producer: producer, Next: next, Evict: func() {}, Settled: r.add})
	if err != nil {
		t.Fatalf("open session: %v", err)
	}
	return s, acked, r
}

// submit submits lines and waits until they are settled.
func submit(t *testing.T, s sources.Session, lines string) {
	t.Helper()
	if err := s.Submit(t.Context(), []byte(lines)); err != nil {
		t.Fatalf("submit: %v", err)
	}
	if err := s.Settle(t.Context()); err != nil {
		t.Fatalf("settle: %v", err)
	}
}

// stored returns every record in the queue.
func (in *intakeTest) stored(t *testing.T) (records []string) {
	t.Helper()
	c, err := in.queue.Cursor(fmt.Sprint("reader", len(in.queue.Stats().Cursors)), false)
	if err != nil {
		t.Fatal(err)
	}
	for uint64(len(records)) < in.queue.LastSeq() {
		batch, err := c.Next(t.Context(), queue.Limits{Records: 100, Bytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range batch {
			records = append(records, string(r.Data))
		}
	}
	return records
}

func TestLinesByFate(t *testing.T) {
	deep := strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1)
	tests := map[string]struct {
		lines   string
		stored  []string
		refused []string
	}{
		"records":                     {lines: "{}\n{\"a\":1}\n", stored: []string{`{}`, `{"a":1}`}},
		"bytes are kept":              {lines: ` { "n": 1.10e+400, "s":"\u003c\ud800", "n":2 }` + " \t\n", stored: []string{` { "n": 1.10e+400, "s":"\u003c\ud800", "n":2 }` + " \t"}},
		"carriage return is dropped":  {lines: "{}\r\n{}\r\n", stored: []string{`{}`, `{}`}},
		"blank lines have no number":  {lines: "\n{}\n \t\r\n\r\nnope\n", stored: []string{`{}`}, refused: []string{"2:InvalidJSON"}},
		"not JSON":                    {lines: "{}\nnot json\n{\"b\":2}\n", stored: []string{`{}`, `{"b":2}`}, refused: []string{"2:InvalidJSON"}},
		"half an object":              {lines: "{\"a\":\n", refused: []string{"1:InvalidJSON"}},
		"two objects on a line":       {lines: "{}{}\n", refused: []string{"1:InvalidJSON"}},
		"trailing text":               {lines: "{} x\n", refused: []string{"1:InvalidJSON"}},
		"raw control byte":            {lines: "{\"a\":\"\x01\"}\n", refused: []string{"1:InvalidJSON"}},
		"NUL byte":                    {lines: "{\"a\":\"\x00\"}\n", refused: []string{"1:InvalidJSON"}},
		"NUL byte after the object":   {lines: "{}\x00\n", refused: []string{"1:InvalidJSON"}},
		"invalid UTF-8":               {lines: "{\"a\":\"\xff\"}\n{}\n", stored: []string{`{}`}, refused: []string{"1:InvalidJSON"}},
		"byte order marks":            {lines: "\ufeff{}\n{\"a\":1}\n\ufeff {}\n", stored: []string{`{}`, `{"a":1}`, ` {}`}},
		"nothing but a mark":          {lines: "\ufeff\n{}\n", stored: []string{`{}`}, refused: []string{"1:InvalidJSON"}},
		"array":                       {lines: "[{}]\n", refused: []string{"1:NotObject"}},
		"string, number, null, bool":  {lines: "\"s\"\n1\nnull\ntrue\n", refused: []string{"1:NotObject", "2:NotObject", "3:NotObject", "4:NotObject"}},
		"as long as allowed":          {lines: `{"a":"` + strings.Repeat("x", 992) + "\"}\n", stored: []string{`{"a":"` + strings.Repeat("x", 992) + `"}`}},
		"one byte too long":           {lines: `{"a":"` + strings.Repeat("x", 993) + "\"}\n", refused: []string{"1:TooLarge"}},
		"nested too deeply and large": {lines: deep + "\n", refused: []string{"1:TooLarge"}},
		"only refused":                {lines: "x\ny\n", refused: []string{"1:InvalidJSON", "2:InvalidJSON"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			in := newIntake(t, queue.Options{Directory: t.TempDir()})
			s, _, r := in.session(t, "p", 1)
			submit(t, s, tt.lines)
			if got := in.stored(t); !slices.Equal(got, tt.stored) {
				t.Errorf("stored: got %q, want %q", got, tt.stored)
			}
			if got := r.refused(); !slices.Equal(got, tt.refused) {
				t.Errorf("refused: got %q, want %q", got, tt.refused)
			}
			if got, want := r.through(), uint64(len(tt.stored)+len(tt.refused)); got != want {
				t.Errorf("through: got %d, want %d", got, want)
			}
			if got := refusedFiles(t, in.dir); len(got) != len(tt.refused) {
				t.Errorf("refused files hold %d lines, want %d", len(got), len(tt.refused))
			}
		})
	}
}

// refusedFiles returns the objects in the refused files.
func refusedFiles(t *testing.T, dir string) (objects []map[string]any) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "refused", "*.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(content) {
			var o map[string]any
			if err := json.Unmarshal(line, &o); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			objects = append(objects, o)
		}
	}
	return objects
}

func TestRefusedLineIsKeptWithItsReason(t *testing.T) {
	in := newIntake(t, queue.Options{Directory: t.TempDir()})
	s, _, _ := in.session(t, "p", 7)
	submit(t, s, "<not json>\n{\"a\":\"\xff\"}\n")
	got := refusedFiles(t, in.dir)
	if len(got) != 2 {
		t.Fatalf("kept %d lines, want 2", len(got))
	}
	for _, o := range got {
		if _, err := time.Parse(time.RFC3339Nano, o["time"].(string)); err != nil {
			t.Errorf("time: %v", err)
		}
		delete(o, "time")
	}
	want := []map[string]any{
		{"source": "test", "producer": "p", "seq": 7.0, "reason": "InvalidJSON", "detail": "invalid character '<' looking for beginning of value, at byte 1", "line": "<not json>"},
		{"source": "test", "producer": "p", "seq": 8.0, "reason": "InvalidJSON", "detail": "not UTF-8 at byte 6", "lineBase64": "eyJhIjoi/yJ9"},
	}
	for i := range want {
		if fmt.Sprint(got[i]) != fmt.Sprint(want[i]) {
			t.Errorf("line %d:\n got  %v\n want %v", i, got[i], want[i])
		}
	}
}

func TestResendIsRecognisedAcrossARestart(t *testing.T) {
	opts := queue.Options{Directory: t.TempDir()}
	in := newIntake(t, opts)
	s, acked, _ := in.session(t, "p", 1)
	if acked != 0 {
		t.Errorf("acked of a stranger: got %d, want 0", acked)
	}
	submit(t, s, "{\"n\":1}\nbad\n{\"n\":3}\n")
	s.Close()
	in.close(t)

	in = newIntake(t, opts)
	s, acked, r := in.session(t, "p", 1)
	if acked != 3 {
		t.Errorf("acked after restart: got %d, want 3", acked)
	}
	submit(t, s, "{\"n\":1}\nbad\n{\"n\":3}\n{\"n\":4}\n")
	if got, want := in.stored(t), []string{`{"n":1}`, `{"n":3}`, `{"n":4}`}; !slices.Equal(got, want) {
		t.Errorf("stored: got %q, want %q", got, want)
	}
	if got := r.refused(); len(got) != 0 {
		t.Errorf("refused again: %q", got)
	}
	if got := in.queue.Stats().Sources["test"]; got.Stored != 3 || got.Duplicate != 3 || got.Refused["InvalidJSON"] != 1 {
		t.Errorf("tally: %+v", got)
	}
}

func TestNewSessionTakesOverAfterTheOldOneIsSettled(t *testing.T) {
	in := newIntake(t, queue.Options{Directory: t.TempDir()})
	evicted := make(chan struct{})
	old, _, err := in.Open(t.Context(), sources.Opening{Source: "test", Producer: "p", Next: 1, Evict: func() { close(evicted) }})
	if err != nil {
		t.Fatal(err)
	}
	type opened struct {
		s     sources.Session
		acked uint64
	}
	second := make(chan opened)
	go func() {
		s, acked, err := in.Open(t.Context(), sources.Opening{Source: "test", Producer: "p", Next: 1})
		if err != nil {
			t.Errorf("second session: %v", err)
		}
		second <- opened{s, acked}
	}()
	<-evicted
	// The old connection has still read these before it closes.
	if err := old.Submit(t.Context(), []byte("{\"n\":1}\n{\"n\":2}\n")); err != nil {
		t.Fatal(err)
	}
	old.Close()
	got := <-second
	if got.acked != 2 {
		t.Errorf("acked of the second session: got %d, want 2", got.acked)
	}
	submit(t, got.s, "{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n")
	if got, want := in.stored(t), []string{`{"n":1}`, `{"n":2}`, `{"n":3}`}; !slices.Equal(got, want) {
		t.Errorf("stored: got %q, want %q", got, want)
	}
}

func TestTooLargeLineKeepsItsBeginning(t *testing.T) {
	in := newIntake(t, queue.Options{Directory: t.TempDir()})
	s, _, r := in.session(t, "p", 1)
	if err := s.SubmitTooLarge(t.Context(), []byte(`{"a":"begin`), 123456); err != nil {
		t.Fatal(err)
	}
	submit(t, s, "{}\n")
	if got, want := r.refused(), []string{"1:TooLarge"}; !slices.Equal(got, want) {
		t.Errorf("refused: got %q, want %q", got, want)
	}
	got := refusedFiles(t, in.dir)
	if len(got) != 1 || got[0]["line"] != `{"a":"begin` || got[0]["detail"] != "line of 123456 bytes, at most 1000 are allowed" {
		t.Errorf("kept: %v", got)
	}
}

func TestRefusedFilesAreBounded(t *testing.T) {
	dir := t.TempDir()
	log := &refusedLog{dir: disk.At(dir), log: slog.New(slog.DiscardHandler)}
	for i := range 90 { // each of a source of its own, or the rate of one would bound them
		log.add(fmt.Sprint(i), []refusedLine{{Reason: sources.InvalidJSON, text: bytes.Repeat([]byte("x"), 1<<20-200)}})
	}
	if err := log.close(); err != nil {
		t.Fatal(err)
	}
	var total int64
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		total += info.Size()
	}
	if total > refusedMaxBytes+1<<21 || total < refusedMaxBytes/2 || log.dropped == 0 {
		t.Errorf("%d bytes in %d files, %d dropped; want at most about %d", total, len(entries), log.dropped, refusedMaxBytes)
	}
}
