package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/tidwall/wal"

	"github.com/docket-export/docket/bench/load"
	"github.com/docket-export/docket/bench/record"
	"github.com/docket-export/docket/bench/trial"
	"github.com/docket-export/docket/exporter/queue"
)

func TestOverwriterGoesRound(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "raw"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := overwriter{file: f, commit: bytes.Repeat([]byte("x"), 30*record.Bytes), span: 100 * record.Bytes}
	attempt(t, func(tr *trial.T) {
		if got := w.run(tr, 200*record.Bytes); got.Records != 210 || got.Took <= 0 || w.at != 30*record.Bytes {
			t.Errorf("got %+v and the last lap ended at %d, want 210 records and 30", got, w.at/record.Bytes)
		}
	})
	if info, err := f.Stat(); err != nil || info.Size() != 90*record.Bytes {
		t.Errorf("got a file of %d bytes and error %v, want 90 KB: a commit that does not fit begins a lap", info.Size(), err)
	}
}

// A cursor has read everything when the lap is over, whether it followed or not.
func TestLap(t *testing.T) {
	for _, follow := range []bool{false, true} {
		attempt(t, func(tr *trial.T) {
			track := openTrack(tr, filepath.Join(t.TempDir(), "queue"), true)
			const records = 10 * load.Producers * load.LinesPerWrite
			p := track.lap(records, follow)
			if p.Records != records || p.Parts == 0 || p.Took <= 0 {
				t.Errorf("following %v: got %+v", follow, p)
			}
			if got := track.q.LastSeq(); got != records {
				t.Errorf("following %v: got %d records, want %d", follow, got, records)
			}
			if got := track.cursor.Account().Delivered; got != records {
				t.Errorf("following %v: the cursor took %d records, want %d", follow, got, records)
			}
		})
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
	const records = 4 * load.Producers * load.LinesPerWrite
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
	if _, err := feedAll(t.Context(), g, newFeeders(), 4*load.Producers*load.Window); err == nil {
		t.Error("feed: got no error")
	}
	if err := g.close(); err == nil {
		t.Error("close: got no error")
	}
}

// What is measured after a crash must be a queue that has crashed.
func TestCrashKillsTheProcess(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "queue")
	in(t, testLab(t), func(l *lab) { l.crash(dir) })
	q, err := queue.Open(queue.Options{Directory: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close(t.Context())
	if got := q.LastSeq(); got <= crashRecords {
		t.Errorf("got %d records, want more than the %d that were durable before the last load", got, crashRecords)
	}
}
