package exporter

import (
	"time"

	"github.com/docket-export/docket/exporter/queue"
)

// Status returns the document of /status. Its ledger balances: all of it is
// taken from one view of the queue.
func (e *Exporter) Status() Status {
	s, _ := e.view()
	return s
}

// view returns the status with the view of the queue that its ledger is taken from.
func (e *Exporter) view() (Status, queue.Stats) {
	now := e.parts() // before the queue: a sink that it has forgotten since is left out
	stats, at := e.lookAtQueue(), time.Now()
	rates := e.flow.rates(stats, at)
	s := Status{
		Time:   at,
		Queue:  queueStatus(stats, now.cfg.Queue, e.full.episode()),
		Ledger: ledgerOf(stats),
		Config: e.loads.Status(),
	}
	s.Queue.RecordsPerSecond, s.Queue.FullInSeconds = rates.stored(), rates.fullIn(stats, s.Queue.State)
	if why := e.ingest.refused.failure.Load(); why != nil && s.Queue.State == Active {
		s.Queue.State, s.Queue.Reason = Degraded, "refused lines cannot be kept and are only counted: "+*why
	}
	for _, r := range now.sources {
		source := r.snapshot()
		source.RefusedDropped = e.ingest.refused.rate.linesLeftOut(source.Name)
		source.Records, source.RecordsPerSecond = stats.Sources[source.Name].Received, rates.received(source.Name)
		source.LastRecord = e.ingest.last.get(source.Name)
		s.Sources = append(s.Sources, source)
	}
	for _, d := range now.deliveries {
		account, known := stats.Cursors[d.cfg.Name]
		if !known {
			continue
		}
		status := d.snapshot()
		status.Cursor, status.Pending = account.Next, d.pendingOf(account, stats.LastSeq)
		status.RecordsPerSecond = rates.delivered(d.cfg.Name)
		if t := status.Transactions; t != nil {
			t.Durable = stats.Saved[d.cfg.Name].Next
		}
		s.Sinks = append(s.Sinks, status)
	}
	for _, name := range stats.Parked {
		if now.delivery(name) != nil {
			continue // its delivery has ended in this very moment
		}
		s.Sinks = append(s.Sinks, SinkStatus{
			Name: name, State: Error, Reason: "NotConfigured", LastError: notConfigured, Cursor: stats.Cursors[name].Next,
			Pending: s.Ledger.Sinks[name].Pending,
		})
	}
	if l := e.metricsListener.Load(); l != nil {
		s.Metrics = l.snapshot()
	}
	return s, stats
}

// ledgerOf adds up what the queue knows.
func ledgerOf(stats queue.Stats) Ledger {
	l := Ledger{
		Stored:  stats.LastSeq,
		Corrupt: stats.Corrupt,
		Refused: map[string]uint64{},
		Lost:    map[string]uint64{},
		Sinks:   map[string]SinkLedger{},
	}
	l.Received = stats.Unattributed
	for _, t := range stats.Sources {
		l.Received += t.Received
		l.Duplicate += t.Duplicate
		for reason, n := range t.Refused {
			l.Refused[reason] += n
		}
		for decision, n := range t.Lost {
			l.Lost[decision] += n
		}
	}
	for name, a := range stats.Cursors {
		l.Sinks[name] = SinkLedger{
			Delivered: a.Delivered, Filtered: a.Filtered, DeadLettered: a.DeadLettered,
			Dropped: a.Dropped, Corrupt: a.Corrupt, Pending: a.Pending(stats.LastSeq),
		}
	}
	return l
}
