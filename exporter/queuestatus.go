package exporter

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/internal/disk"
)

// queueStatus says how the queue is doing. A full queue is Degraded: it is doing
// as it was configured, and readiness stays as it is, or one dead sink
// would take the pod out of service. A queue that cannot write is in Error.
// episode is when it began to be full, zero when it is not.
func queueStatus(stats queue.Stats, cfg QueueConfig, episode time.Time) QueueStatus {
	s := QueueStatus{
		ID: stats.ID, FirstSeq: stats.FirstSeq, LastSeq: stats.LastSeq,
		Bytes: stats.Bytes, MaxBytes: int64(cfg.MaxBytes), State: Active,
	}
	switch {
	case stats.Err != nil:
		s.State, s.Reason, s.Since = Error, diskReason(stats.Err, cfg.Directory), &stats.Since
	case stats.Full, cfg.WhenFull == DropOldest && !episode.IsZero():
		s.State, s.Reason, s.Since = Degraded, fullReason(stats, cfg), &episode
	}
	return s
}

// diskReason says what a failed write means, and what the operator can do.
func diskReason(err error, dir string) string {
	if lost, ok := errors.AsType[*queue.LostError](err); ok {
		return fmt.Sprintf("directory lost: %v; docket acknowledges nothing new, and undelivered records may be lost: "+
			"restore the files at %s and docket continues by itself, or restart docket to use the files now there", lost, dir)
	}
	if errors.Is(err, queue.ErrSegmentRemoved) {
		return fmt.Sprintf("segment lost: %v; docket continues in a new segment: do not let other programs remove files below %s", err, dir)
	}
	what, todo := disk.Advice(err, dir)
	if what == "" {
		what, todo = "disk fails", "see the kernel's log for the cause; to move to another disk, stop docket, copy "+dir+" to another disk and set queue.directory"
	}
	return fmt.Sprintf("%s: %s; docket acknowledges nothing new until a write succeeds, and needs no restart (%v)", what, todo, err)
}

// fullReason says which sink holds the oldest record back, and what can be done.
func fullReason(stats queue.Stats, cfg QueueConfig) string {
	sink, pending := mostBehind(stats)
	if pending == 0 {
		return "full: every sink has its records, and docket will soon remove the segments"
	}
	name := "sink " + sink
	todo := "repair the sink"
	if slices.Contains(stats.Parked, sink) {
		name += ", which is no longer configured,"
		todo = "add it again, or with `retire: true` to drop them"
	}
	return fmt.Sprintf("full: %s: %s holds back %d records in %d MiB: %s, or raise queue.maxBytes, now %s",
		whenFullText(stats, cfg.WhenFull), name, pending, stats.Bytes>>20, todo, cfg.MaxBytes)
}

// whenFullText says what a full queue does.
func whenFullText(stats queue.Stats, policy WhenFull) string {
	if policy == DropOldest {
		return "the oldest records are dropped" + droppedText(stats)
	}
	return "producers wait"
}

// droppedText lists how many records every sink has lost so far: " (so far bus 12)".
func droppedText(stats queue.Stats) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(stats.Cursors)) {
		if n := stats.Cursors[name].Dropped; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", name, n))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " (so far " + strings.Join(parts, ", ") + ")"
}

// mostBehind is the sink that waits for the oldest record, and how many it has
// yet to deliver.
func mostBehind(stats queue.Stats) (sink string, pending uint64) {
	for _, name := range slices.Sorted(maps.Keys(stats.Cursors)) {
		if n := stats.LastSeq + 1 - stats.Cursors[name].Next; n > pending {
			sink, pending = name, n
		}
	}
	return sink, pending
}
