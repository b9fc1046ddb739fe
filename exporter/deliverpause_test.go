package exporter

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docket-export/docket/exporter/queue"
)

// However long a sink is down, it is neither given up nor hammered: the pauses
// grow to the longest one and stay there.
func TestPausesStayLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := &scriptedSink{errors: repeat(errNet, 500)}
		d := deliveryTo(t, s, &fakeCursor{batches: [][]queue.Record{oneRecord(1)}}, slog.New(slog.DiscardHandler))
		time.AfterFunc(24*time.Hour, cancel) // of the bubble's time
		d.run(ctx)
		if len(s.attempts) != 501 {
			t.Fatalf("got %d attempts, want 501", len(s.attempts))
		}
		for i := 10; i < len(s.attempts); i++ {
			pause := s.attempts[i] - s.attempts[i-1]
			if pause < 30*time.Second || pause > 90*time.Second { // a minute, less or more by half
				t.Fatalf("attempt %d came after %v, want about a minute", i+1, pause)
			}
		}
	})
}
