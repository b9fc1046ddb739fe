package sendcmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/docket-export/docket/cli/internal/terminal"
	"github.com/docket-export/docket/client"
)

// TestLineNumbers compares with a plain list, while the oldest are forgotten.
func TestLineNumbers(t *testing.T) {
	input := []uint64{1, 2, 3, 5, 6, 10, 12, 14, 15, 16, 17, 30}
	var n lineNumbers
	for i, line := range input {
		n.add(line)
		forgotten := uint64(max(0, i-3))
		n.forget(forgotten)
		for sent := forgotten + 1; sent <= uint64(i+1); sent++ {
			if got, want := n.line(sent), input[sent-1]; got != want {
				t.Errorf("after %d lines: got line %d for number %d, want %d", i+1, got, sent, want)
			}
		}
	}
	n.forget(uint64(len(input)))
	if len(n.lines) > 0 {
		t.Errorf("got %d lines kept when all is forgotten, want none", len(n.lines))
	}
}

// start is the time at which tests begin.
var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestProgress(t *testing.T) {
	p := newProgress(bytes.NewReader(make([]byte, 1000)), 1000, start)
	if _, err := io.ReadFull(p, make([]byte, 750)); err != nil {
		t.Fatal(err)
	}
	c := counts{stored: 30, refused: 2, inFlight: 250, connected: true}
	for name, test := range map[string]struct{ got, want any }{
		"half":    {p.work(c), terminal.Work{What: "sending", Done: 500, Total: 1000, Note: "30 stored, 2 refused"}},
		"away":    {p.work(counts{inFlight: 751}), terminal.Work{What: "sending", Total: 1000, Note: "0 stored, 0 refused, no connection"}},
		"summary": {p.summary(c, start.Add(2e9)), "30 lines stored, 2 refused, in 2s (15 lines/s)"},
		"one":     {p.summary(counts{stored: 1}, start), "1 line stored, 0 refused, in 0s (1000 lines/s)"},
	} {
		t.Run(name, func(t *testing.T) {
			if test.got != test.want {
				t.Errorf("got  %+v\nwant %+v", test.got, test.want)
			}
		})
	}
}

// TestSendGivesUpInOneWording: what ends the sending says why, also where the sending
// itself has met the end of its time first.
func TestSendGivesUpInOneWording(t *testing.T) {
	gaveUp := errors.New("gave up")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 0, gaveUp)
	defer cancel()
	for range 100 { // either may be seen first
		result := make(chan error, 1)
		result <- fmt.Errorf("flush: %w", ctx.Err())
		if err := new(sendCommand).wait(ctx, result); !errors.Is(err, gaveUp) {
			t.Fatalf("got %v, want %v", err, gaveUp)
		}
	}
}

// A stall is said once: a queue at its bound stalls again and again.
func TestStall(t *testing.T) {
	s := stall{since: start}
	now := start
	for _, step := range []struct {
		after   time.Duration
		handled uint64
		want    bool
	}{{2 * time.Second, 0, false}, {2 * time.Second, 1, false}, {2 * time.Second, 1, false}, {time.Second, 1, true}, {time.Hour, 2, false}, {time.Hour, 2, false}} {
		now = now.Add(step.after)
		if got := s.is(client.SenderStats{Connected: true, InFlightLines: 1, Handled: step.handled}, now); got != step.want {
			t.Errorf("after %s, %d handled: got %t, want %t", now.Sub(start), step.handled, got, step.want)
		}
	}
}
