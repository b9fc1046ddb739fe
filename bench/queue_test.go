package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/tidwall/wal"

	"github.com/docket-export/docket/bench/record"
	"github.com/docket-export/docket/bench/site"
	"github.com/docket-export/docket/exporter/queue"
)

func TestOverwriterGoesRound(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "raw"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := overwriter{file: f, commit: bytes.Repeat([]byte("x"), 30), span: 100}
	if _, err := w.run(t.Context(), 200); err != nil {
		t.Fatal(err)
	}
	if w.written != 210 || w.at != 30 {
		t.Errorf("got %d bytes written and the last lap ended at %d, want 210 and 30", w.written, w.at)
	}
	if info, err := f.Stat(); err != nil || info.Size() != 90 {
		t.Errorf("got a file of %d bytes and error %v, want 90: a commit that does not fit begins a lap", info.Size(), err)
	}
}

// A cursor has read everything when the lap is over, whether it followed or not.
func TestLap(t *testing.T) {
	for following := range 3 {
		track, err := openTrack(filepath.Join(t.TempDir(), "queue"), 2)
		if err != nil {
			t.Fatal(err)
		}
		const records = 10 * producers * recordsPerChunk
		p, err := track.lap(t.Context(), records, following)
		if err != nil {
			t.Fatal(err)
		}
		if p.records != records || p.commits == 0 || p.took <= 0 {
			t.Errorf("%d following: got %+v", following, p)
		}
		if got := track.q.LastSeq(); got != records {
			t.Errorf("%d following: got %d records, want %d", following, got, records)
		}
		for i, c := range track.cursors {
			if got := c.Account().Delivered; got != records {
				t.Errorf("%d following: cursor %d took %d records, want %d", following, i, got, records)
			}
		}
		if err := track.close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestLookSeesEveryChange(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a")
	steps := []struct {
		name string
		do   func() error
	}{
		{"create", func() error { return os.WriteFile(file, []byte("1"), 0o600) }},
		{"grow", func() error { return os.WriteFile(file, []byte("12"), 0o600) }},
		{"rename", func() error { return os.Rename(file, file+"b") }},
		{"remove", func() error { return os.Remove(file + "b") }},
	}
	before, err := look(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range steps {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		now, err := look(dir)
		if err != nil {
			t.Fatal(err)
		}
		if now == before {
			t.Errorf("%s: got the same text as before: %q", step.name, now)
		}
		before = now
	}
}

// The baseline must do the work: everything that was acknowledged is in the log.
func TestWALGroupStoresEverything(t *testing.T) {
	dir := t.TempDir()
	log, err := wal.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	g := newWALGroup(log)
	const records = 4 * producers * recordsPerChunk
	if _, err := feedAll(t.Context(), g, newFeeders(), records); err != nil {
		t.Fatal(err)
	}
	if err := g.close(); err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	log = openWAL(t, dir, nil)
	defer log.Close()
	if last, err := log.LastIndex(); err != nil || last != records {
		t.Errorf("got %d entries and error %v, want %d", last, err, records)
	}
	seen := map[string]bool{}
	for i := uint64(1); i <= records; i++ {
		line, err := log.Read(i)
		if err != nil {
			t.Fatal(err)
		}
		if len(line) != record.Bytes || seen[string(line)] {
			t.Fatalf("entry %d: got %d bytes, seen before: %v", i, len(line), seen[string(line)])
		}
		seen[string(line)] = true
	}
}

func TestWALGroupReportsAFailedWrite(t *testing.T) {
	log, err := wal.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	g := newWALGroup(log)
	if _, err := feedAll(t.Context(), g, newFeeders(), 4*producers*linesInFlight); err == nil {
		t.Error("feed: got no error")
	}
	if err := g.close(); err == nil {
		t.Error("close: got no error")
	}
}

func TestReadersReadTheWholeBacklog(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "queue")
	const records = 20 * producers * recordsPerChunk
	if err := fillQueue(t.Context(), dir, records); err != nil {
		t.Fatal(err)
	}
	for _, cold := range []bool{true, false, true} { // each time from the beginning
		got, err := readQueue(t.Context(), dir, cold)
		if err != nil || got.bytes != records*record.Bytes {
			t.Errorf("queue, cold %v: got %d bytes and error %v, want %d", cold, got.bytes, err, records*record.Bytes)
		}
		if got, err = readPlain(t.Context(), dir, cold); err != nil || got.bytes < records*record.Bytes {
			t.Errorf("plain, cold %v: got %d bytes and error %v, want at least %d", cold, got.bytes, err, records*record.Bytes)
		}
	}
}

// What is measured after a crash must be a queue that has crashed.
func TestCrashKillsTheProcess(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "queue")
	if err := (&lab{Site: &site.Site{Self: self}}).crash(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	q, err := queue.Open(queue.Options{Directory: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close(t.Context())
	if got := q.LastSeq(); got <= crashRecords {
		t.Errorf("got %d records, want more than the %d that were durable before the last load", got, crashRecords)
	}
}
