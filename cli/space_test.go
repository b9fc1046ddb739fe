package cli

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docket-export/docket/exporter"
)

// TestDiskFull is the real program on a disk that fills up and is freed again:
// it says so, acknowledges nothing that it has not stored, goes on without being
// started again, and loses nothing that it has acknowledged.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		restart bool // killed on the full disk, and started there
		free    func(*spaceTest)
	}{
		"freed by hand":         {free: (*spaceTest).removeJunk},
		"freed by the sink":     {free: (*spaceTest).receive},
		"killed while it is so": {restart: true, free: (*spaceTest).removeJunk},
	} {
		if testing.Short() && !tt.restart {
			continue
		}
		t.Run(name, func(t *testing.T) {
			s := newSpaceTest(t, smallDisk(t, "24m"), "maxBytes: 32Mi, minFreeBytes: 4Mi")
			s.junk(10 << 20)
			s.start()
			p := s.produce()
			full := s.await("a full disk", func(st exporter.Status) bool { return st.Queue.State == exporter.Error })
			if tt.restart {
				s.kill()
				s.start()
				full = s.await("a full disk after the restart", func(st exporter.Status) bool { return st.Queue.State == exporter.Error })
			}
			s.checkFull(full)
			acked := p.acked.Load()
			p.most.Store(acked + 1000) // fewer than fill the disk again, before that was seen

			tt.free(s)
			s.await("a queue that is well", func(st exporter.Status) bool { return st.Queue.State == exporter.Active })
			eventually(t, "acks again", func() bool { return p.acked.Load() > acked+200 })
			eventually(t, "readiness", func() bool { return isReady(t, s.admin) })
			p.stop()
			s.receive()
			s.finish(p)
		})
	}
}

// TestDiskFullOfOthers: others take what the disk has left, while the sink
// delivers. The queue may go on with the space that it has already, or not.
func TestDiskFullOfOthers(t *testing.T) {
	t.Parallel()
	s := newSpaceTest(t, smallDisk(t, "24m"), "maxBytes: 32Mi")
	s.receive()
	s.start()
	p := s.produce()
	eventually(t, "acks", func() bool { return p.acked.Load() > 1000 })
	s.junk(64 << 20)
	for range 100 {
		s.status()
	}
	s.removeJunk()
	acked := p.acked.Load()
	eventually(t, "acks again", func() bool { return p.acked.Load() > acked+200 })
	p.stop()
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
	if n := strings.Count(s.log(), `"msg":"queue is full"`); n != 1 {
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
	if n := strings.Count(s.log(), `"msg":"queue is full`); n != 1 {
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
	if got := s.get("/metrics"); !strings.Contains(got, want) {
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

// TestRetain: what is delivered stays within the bounds of queue.retain, and goes
// when the queue needs its room: nobody waits for it.
func TestRetain(t *testing.T) {
	t.Parallel()
	s := newSpaceTest(t, t.TempDir(), "maxBytes: 16Mi, retain: {maxAge: 24h, maxBytes: 8Mi}")
	s.receive()
	s.start()
	p := s.produceUpTo(1000)
	s.awaitDelivered(1000)
	s.stop() // lets go of everything that is not to be kept
	s.start()
	if first := s.status().Queue.FirstSeq; first != 1 {
		t.Errorf("got records kept from %d on, want from 1: what is delivered is within its bounds", first)
	}
	p.upTo(7000)
	s.awaitDelivered(7000)
	st := s.await("no more than the last 8 MiB kept", func(st exporter.Status) bool { return st.Queue.FirstSeq >= st.Queue.LastSeq-3000 })
	if q := st.Queue; q.FirstSeq > q.LastSeq-1000 {
		t.Errorf("got records from %d to %d kept, want the last 8 MiB of them", q.FirstSeq, q.LastSeq)
	}
	s.checkBytes(16 << 20)
	s.finish(p)
}
