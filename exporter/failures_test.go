package exporter

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/sinks"
)

// What a sink says wrongly must not end the process.
func TestBadFailures(t *testing.T) {
	for name, err := range map[string]error{
		"index out of range": reject(7),
		"twice":              reject(0, 0),
		"no cause":           &sinks.Failure{Kind: sinks.Transient},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if r := recover(); r != nil {
					t.Errorf("panic: %v", r)
				}
			}()
			n := 0
			f := &funcSink{send: func(context.Context, sinks.Batch) error {
				if n++; n > 1 {
					return nil
				}
				return err
			}}
			c := &fakeCursor{batches: [][]queue.Record{records(1, 3)}}
			d := newTestDelivery(t, SinkConfig{Config: f}, c, slog.New(slog.DiscardHandler))
			d.cfg.Retry = RetryConfig{InitialBackoff: config.Duration(time.Millisecond), MaxBackoff: config.Duration(time.Millisecond)}
			start(t, d)
			await.Until(t, "settled", func() bool { return len(c.acked()) == 1 })
			if list, _ := d.letters.list(); c.outcome.DeadLettered != uint64(len(list)) {
				t.Errorf("settled with %+v, and there are %d letters", c.outcome, len(list))
			}
		})
	}
}

// orderedSink is a configuration whose sink hears of gaps.
type orderedSink struct{ sinks.Config }

func (orderedSink) Ordered() {}

// A sink that is Ordered hears of every seq.
func TestGapsOfRejected(t *testing.T) {
	for _, names := range []bool{true, false} {
		for _, poison := range [][]uint64{{3}, {1, 2, 3, 4, 5}} {
			t.Run(fmt.Sprint(names, poison), func(t *testing.T) {
				s := &pickySink{poison: poison, names: names}
				c := &fakeCursor{batches: [][]queue.Record{append(records(1, 2), records(5, 7)...), records(8, 8)}, account: queue.Account{Next: 1}}
				d := newTestDelivery(t, SinkConfig{Config: orderedSink{s}}, c, slog.New(slog.DiscardHandler))
				start(t, d)
				await.Until(t, "settled", func() bool { return len(c.acked()) == 2 })
				seen := map[uint64]bool{}
				for _, q := range s.seqs() {
					seen[q] = true
				}
				for _, g := range s.gaps {
					for q := g.From; q <= g.To; q++ {
						seen[q] = true
					}
				}
				for q := uint64(1); q <= 8; q++ {
					if !seen[q] {
						t.Errorf("the sink never heard of %d: items %v, gaps %v", q, s.seqs(), s.gaps)
					}
				}
			})
		}
	}
}
