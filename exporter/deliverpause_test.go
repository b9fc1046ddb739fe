package exporter

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docket-export/docket/exporter/queue"
)

// /status says how often the batch under way has failed and when it is tried again, and
// neither once it works.
func TestNextAttemptIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s := &scriptedSink{errors: repeat(errNet, 3)}
		d := deliveryTo(t, s, &fakeCursor{batches: [][]queue.Record{oneRecord(1)}}, slog.New(slog.DiscardHandler))
		ended := make(chan struct{})
		go func() { defer close(ended); d.run(ctx) }()
		var shown []time.Duration // when attempts were to be made, since the start
		for failed := 1; failed <= 3; failed++ {
			synctest.Wait()
			got := d.snapshot()
			if got.Attempts != failed || got.NextAttempt == nil || !got.NextAttempt.After(time.Now()) {
				t.Fatalf("after %d failed attempts: got %d, and the next at %v", failed, got.Attempts, got.NextAttempt)
			}
			shown = append(shown, got.NextAttempt.Sub(s.began))
			time.Sleep(time.Until(*got.NextAttempt)) // of the bubble's time
		}
		synctest.Wait()
		if got := d.snapshot(); got.State != Active || got.Attempts != 0 || got.NextAttempt != nil {
			t.Errorf("once it works: got %+v", got)
		}
		cancel()
		<-ended
		if len(s.attempts) != 4 || !slices.Equal(s.attempts[1:], shown) {
			t.Errorf("got attempts after %v, want them when it was shown: %v", s.attempts, shown)
		}
	})
}
