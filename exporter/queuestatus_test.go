package exporter

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/exporter/queue"
)

func TestQueueStatus(t *testing.T) {
	since := time.Date(2026, 1, 5, 10, 4, 7, 0, time.UTC)
	failing := func(err error) queue.Stats {
		return queue.Stats{Err: fmt.Errorf("segment 1: write at 4096: %w", err), Since: since}
	}
	// The sink "bus" is behind by 990, "siem" by none.
	full := queue.Stats{
		LastSeq: 1000, Bytes: 100 << 20, Full: true,
		Cursors: map[string]queue.Account{"siem": {Next: 1001, Dropped: 3}, "bus": {Next: 11}, "late": {Next: 600, Dropped: 12}},
	}
	parked := full
	parked.Parked = []string{"bus"}
	done := full
	done.Cursors = map[string]queue.Account{"siem": {Next: 1001}}
	dropping := full
	dropping.Full = false

	tests := map[string]struct {
		stats   queue.Stats
		policy  WhenFull
		episode time.Time
		state   State
		since   bool
		want    []string // in the reason; none: there is no reason
	}{
		"well":             {stats: queue.Stats{LastSeq: 7, FirstSeq: 1}, policy: Block, state: Active},
		"well after a day": {stats: queue.Stats{LastSeq: 7, FirstSeq: 1}, policy: Block, episode: since, state: Active},
		"disk full": {stats: failing(unix.ENOSPC), policy: Block, state: Error, since: true, want: []string{
			"disk full: free space on the file system of /q, or enlarge it; docket acknowledges nothing new", "(segment 1: write at 4096: no space left on device)"}},
		"quota":         {stats: failing(unix.EDQUOT), policy: Block, state: Error, since: true, want: []string{"disk quota used up: ", "raise the quota of this user, on the file system of /q"}},
		"read-only":     {stats: failing(unix.EROFS), policy: Block, state: Error, since: true, want: []string{"read-only file system: ", "mount the file system of /q for writing"}},
		"disk error":    {stats: failing(unix.EIO), policy: Block, state: Error, since: true, want: []string{"disk fails: ", "kernel's log", "set queue.directory"}},
		"unknown error": {stats: failing(errors.New("odd")), policy: Block, state: Error, since: true, want: []string{"disk fails: ", "(segment 1: write at 4096: odd)"}},
		"permission":    {stats: failing(unix.EACCES), policy: Block, state: Error, since: true, want: []string{"no permission: ", "let this user write to /q"}},
		"full": {stats: full, policy: Block, episode: since, state: Degraded, since: true, want: []string{
			"full: producers wait: sink bus holds back 990 records in 100 MiB: repair the sink, or raise queue.maxBytes, now 100Mi"}},
		"full, of a lost sink":  {stats: parked, policy: Block, episode: since, state: Degraded, since: true, want: []string{"sink bus, which is no longer configured, holds back 990", "`retire: true`"}},
		"full, and all is done": {stats: done, policy: Block, episode: since, state: Degraded, since: true, want: []string{"full: every sink has its records"}},
		"dropping": {stats: dropping, policy: DropOldest, episode: since, state: Degraded, since: true, want: []string{
			"full: the oldest records are dropped (so far late 12, siem 3): sink bus holds back 990 records"}},
		"has dropped": {stats: dropping, policy: DropOldest, state: Active},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := queueStatus(tt.stats, QueueConfig{Directory: "/q", MaxBytes: 100 << 20, WhenFull: tt.policy}, tt.episode)
			if got.State != tt.state || (got.Since != nil) != tt.since || got.Since != nil && !got.Since.Equal(since) {
				t.Errorf("got state %s since %v, want %s", got.State, got.Since, tt.state)
			}
			if (got.Reason == "") != (len(tt.want) == 0) {
				t.Errorf("got reason %q, want %q", got.Reason, tt.want)
			}
			for _, want := range tt.want {
				if !strings.Contains(got.Reason, want) {
					t.Errorf("got reason %q, want %q in it", got.Reason, want)
				}
			}
		})
	}
}

// An episode begins when the queue is full, or has dropped something, and ends
// when neither was so for a while.
func TestFullWatch(t *testing.T) {
	start := time.Date(2026, 1, 5, 10, 4, 7, 0, time.UTC)
	const never = -time.Second
	var w fullWatch
	for _, step := range []struct {
		at       time.Duration
		full     bool
		lastDrop time.Duration
		want     string        // "began", "ended" or nothing
		episode  time.Duration // when it began
	}{
		{at: 0, lastDrop: never, episode: never},
		{at: 2 * time.Second, full: true, lastDrop: never, want: "began", episode: 2 * time.Second},
		{at: 3 * time.Second, lastDrop: never, episode: 2 * time.Second},
		{at: 4 * time.Second, full: true, lastDrop: never, episode: 2 * time.Second},
		{at: 13 * time.Second, lastDrop: never, episode: 2 * time.Second},
		{at: 14 * time.Second, lastDrop: never, want: "ended", episode: never},
		{at: 15 * time.Second, lastDrop: never, episode: never},
		{at: 17 * time.Second, lastDrop: 16 * time.Second, want: "began", episode: 16 * time.Second},
		{at: 25 * time.Second, lastDrop: 24 * time.Second, episode: 16 * time.Second},
		{at: 33 * time.Second, lastDrop: 24 * time.Second, episode: 16 * time.Second},
		{at: 34 * time.Second, lastDrop: 24 * time.Second, want: "ended", episode: never},
		{at: 35 * time.Second, lastDrop: 24 * time.Second, episode: never},
	} {
		stats := queue.Stats{Full: step.full}
		if step.lastDrop != never {
			stats.LastDrop = start.Add(step.lastDrop)
		}
		began, ended := w.look(stats, start.Add(step.at))
		if (began != (step.want == "began")) || (ended != (step.want == "ended")) {
			t.Errorf("at %s: got began %t, ended %t, want %q", step.at, began, ended, step.want)
		}
		want := start.Add(step.episode)
		if step.episode == never {
			want = time.Time{}
		}
		if got := w.episode(); !got.Equal(want) {
			t.Errorf("at %s: got an episode since %s, want %s", step.at, got, want)
		}
	}
}
