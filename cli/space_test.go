package cli

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docket-export/docket/exporter"
)

// TestDiskFull is the real program on a disk that fills up and is freed again: it says so,
// acknowledges nothing that it has not stored, a kill on the full disk included, goes on without
// being started again, and loses nothing that it has acknowledged.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	s := newSpaceTest(t, smallDisk(t, "24m"), "maxBytes: 32Mi, minFreeBytes: 4Mi")
	s.junk(10 << 20)
	s.start()
	p := s.produce()
	isFull := func(st exporter.Status) bool { return st.Queue.State == exporter.Error }
	s.checkFull(s.await("a full disk", isFull))
	s.kill()
	s.start()
	s.checkFull(s.await("a full disk after the restart", isFull))
	acked := p.acked.Load()
	p.most.Store(acked + 1000) // fewer than fill the disk again, before that was seen

	s.removeJunk()
	s.await("a queue that is well", func(st exporter.Status) bool { return st.Queue.State == exporter.Active })
	eventually(t, "acks again", func() bool { return p.acked.Load() > acked+200 })
	eventually(t, "readiness", func() bool { return isReady(t, s.admin) })
	p.stop()
	s.receive()
	s.finish(p)
}

// TestFullByMaxBytes: a sink that is down fills the queue up to its bound. That
// is told, and logged once; it makes nobody unready.
func TestFullByMaxBytes(t *testing.T) {
	t.Parallel()
	s := newSpaceTest(t, t.TempDir(), "maxBytes: 16Mi")
	s.start()
	p := s.produce()
	full := s.await("a full queue", func(st exporter.Status) bool { return st.Queue.State != exporter.Active }).Queue
	if full.State != exporter.Degraded || full.Since == nil || !strings.HasPrefix(full.Reason, "full: producers wait: sink away holds back ") {
		t.Errorf("got state %s since %v: %s, want Degraded by the sink that is away", full.State, full.Since, full.Reason)
	}
	if !isReady(t, s.admin) {
		t.Error("got an exporter that is not ready, want readiness left alone")
	}
	s.checkBytes(16 << 20)
	acked := p.acked.Load()
	s.receive()
	eventually(t, "acks again", func() bool { return p.acked.Load() > acked+200 })
	p.stop()
	s.finish(p)
	if n := strings.Count(readFile(t, filepath.Join(s.dir, "log")), `"msg":"queue is full"`); n != 1 {
		t.Errorf("got %d lines in the log that the queue is full, want 1", n)
	}
}

// TestDropOldest: a queue that drops takes every line although one sink is down
// for long, the books tell what that sink has lost, and the rest comes when it is
// back, across a kill.
func TestDropOldest(t *testing.T) {
	t.Parallel()
	s := newSpaceTest(t, t.TempDir(), "maxBytes: 16Mi, whenFull: DropOldest")
	s.start()
	p := s.produce()
	dropping := s.await("dropped records", func(st exporter.Status) bool { return st.Ledger.Sinks["away"].Dropped > 5000 })
	if q := dropping.Queue; q.State != exporter.Degraded || !strings.Contains(q.Reason, "the oldest records are dropped (so far ") || !isReady(t, s.admin) {
		t.Errorf("got state %s (%s), ready %t, want Degraded, what is dropped, and ready", q.State, q.Reason, isReady(t, s.admin))
	}
	p.stop()
	s.checkBytes(16 << 20)
	s.checkLedger(p)
	if n := strings.Count(readFile(t, filepath.Join(s.dir, "log")), `"msg":"queue is full`); n != 1 {
		t.Errorf("got %d lines in the log that the queue is full, want 1", n)
	}
	s.kill()
	s.start()
	st := s.checkLedger(p)
	if a, gone := st.Ledger.Sinks["away"], st.Queue.FirstSeq-1; a.Dropped < gone || gone == 0 {
		t.Errorf("got %d dropped after a kill, want at least the %d that are gone", a.Dropped, gone)
	}
	s.receive()
	st = s.awaitDelivered(p.sent)
	dropped := st.Ledger.Sinks["away"].Dropped
	want := fmt.Sprintf("docket_records_dropped_total{reason=\"QueueFull\",sink=\"away\"} %d\n", dropped)
	if got := get(t, "http://"+s.admin+"/metrics"); !strings.Contains(got, want) {
		t.Errorf("got metrics without %q", want)
	}
	s.checkLedger(p)
	got := s.received()
	for n := dropped + 1; n <= p.sent; n++ {
		if got[n] == 0 {
			t.Fatalf("got no record %d, want all from %d, which was not dropped, to %d", n, dropped+1, p.sent)
		}
	}
	if uint64(len(got)) != p.sent-dropped {
		t.Errorf("got %d records, want the %d that were not dropped", len(got), p.sent-dropped)
	}
	exported := exportedLines(t, filepath.Join(s.dir, "export"))
	if got, want := uint64(len(exported)), st.Ledger.Sinks["export"].Delivered; got != want {
		t.Errorf("got %d exported lines, want the %d of the ledger", got, want)
	}
}
