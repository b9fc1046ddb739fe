package queue

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docket-export/docket/client/clienttest/await"
)

// A full queue whose bound is raised, or that is told to drop, takes the record that waits.
func TestReconfigureWakesWhatWaits(t *testing.T) {
	const segmentBytes = 64 << 10
	full := Options{SegmentBytes: segmentBytes, MaxBytes: 8 * segmentBytes}
	for name, change := range map[string]func(*Options){
		"maxBytes": func(o *Options) { o.MaxBytes *= 2 },
		"drop":     func(o *Options) { o.WhenFull = DropOldest },
	} {
		t.Run(name, func(t *testing.T) {
			opts := full
			opts.Directory = t.TempDir()
			q := open(t, opts)
			cursorOf(t, q, "dead")
			fill(t, q)
			appended := make(chan error)
			ctx, cancel := context.WithTimeout(t.Context(), await.Left(t))
			defer cancel()
			go func() { appended <- q.Append(ctx, chunk(strings.Repeat("x", 3000)), nil) }()
			await.Until(t, "the record waits", func() bool { return q.Stats().Full })
			change(&opts)
			if !q.Reconfigure(opts) {
				t.Error("the bound does not fit")
			}
			if err := <-appended; err != nil {
				t.Error(err)
			}
		})
	}
}

// Records that are only kept for a replay go once they need not be.
func TestReconfigureLetsRetainedGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := Options{Directory: t.TempDir(), SegmentBytes: 16 << 10, Retain: Retain{MaxAge: time.Hour}}
		q := open(t, opts)
		deliverAll(t, q, cursorOf(t, q, "sink"), 1, 30)
		if got := len(segmentFiles(t, opts.Directory)); got < 6 {
			t.Fatalf("got %d segments kept, want at least 6", got)
		}
		q.Reconfigure(Options{})
		time.Sleep(time.Second) // the janitor has been there
		if got := len(segmentFiles(t, opts.Directory)); got != 1 {
			t.Errorf("got %d segments kept, want the last alone", got)
		}
	})
}
