package client

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/client/clienttest"
	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/decision"
)

// hung puts off a function that runs until release is called.
func hung(t *testing.T, c *Client) (release func()) {
	t.Helper()
	begun, end := make(chan struct{}), make(chan struct{})
	if !c.Later(0, func() { close(begun); <-end }) {
		t.Fatal("Later: got false, want room")
	}
	<-begun
	return func() { close(end) }
}

// What was put off runs in its order, and Flush and Close wait for it.
func TestLaterRunsBeforeTheEnd(t *testing.T) {
	e := newExporter(t)
	c := e.client(Config{})
	release := hung(t, c)
	var ran []int
	for n := range 100 {
		if !c.Later(1, func() { ran = append(ran, n); _ = c.TryLog(record(decision.Deny, n+1)) }) {
			t.Fatalf("Later %d: got false, want room", n)
		}
	}
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	if err := c.Flush(canceled); !errors.Is(err, context.Canceled) {
		t.Errorf("Flush while a function runs: got %v, want canceled", err)
	}
	release()
	if err := c.Flush(within(t)); err != nil {
		t.Fatalf("Flush: %v", err)
	}
	checkCount(t, e.Lines(), 100)
	if !slices.IsSorted(ran) {
		t.Errorf("got order %v, want that of the calls", ran)
	}
	release = hung(t, c)
	c.Later(1, func() { _ = c.TryLog(record(decision.Deny, 101)) })
	release()
	closeClient(t, c)
	checkCount(t, e.Lines(), 101)
	if c.Later(1, func() { t.Error("it runs after Close") }) {
		t.Error("Later after Close: got true, want false")
	}
}

// Neither Later nor Lose waits: not for a function that hangs, not for room, and not for
// the lock of the link, under which thousands of records may be encoded.
func TestLaterNeverWaits(t *testing.T) {
	e := newExporter(t)
	c := e.client(Config{})
	release := hung(t, c)
	c.link.mu.Lock()
	taken := 0
	for c.Later(1, func() {}) {
		taken++
	}
	c.Lose(decision.Deny, 3)
	c.Lose("", 1)
	c.Lose(decision.Warn, 0)
	c.link.mu.Unlock()
	if taken != maxLater {
		t.Errorf("taken: got %d functions, want %d", taken, maxLater)
	}
	if lost := c.Stats().Lost; lost[decision.Deny] != 3 || lost[Unspecified] != 1 || len(lost) != 2 {
		t.Errorf("lost while a function hangs: got %v, want 3 denies and one unspecified", lost)
	}
	release()
	closeClient(t, c)
	_, lost := sequences(t, e.Lines())
	if lost[decision.Deny] != 3 || lost[Unspecified] != 1 || len(lost) != 2 {
		t.Errorf("told as lost: got %v, want 3 denies and one unspecified", lost)
	}
}

// What waits holds no more memory than is allowed, and what has run holds none.
func TestLaterIsBounded(t *testing.T) {
	c := newExporter(t).client(Config{})
	for range 3 {
		release := hung(t, c)
		if !c.Later(maxLaterBytes-1, func() {}) || !c.Later(1, func() {}) {
			t.Error("Later: got false, want room for all that is allowed")
		}
		if c.Later(1, func() {}) {
			t.Error("Later: got true, want no room")
		}
		release()
		if err := c.Flush(within(t)); err != nil {
			t.Fatalf("Flush: %v", err)
		}
	}
}

// Close says what it did not wait for.
func TestCloseWhileAFunctionHangs(t *testing.T) {
	e := newExporter(t)
	c := e.client(Config{})
	release := hung(t, c)
	defer release()
	for range 2 {
		c.Later(1, func() { t.Error("it runs after Close") })
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	left, err := c.Close(ctx)
	if left != 3 || !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "3 records were not made yet") {
		t.Errorf("Close: got %d, %v, want the one that runs and the two behind it", left, err)
	}
	if lost := c.Stats().Lost; lost[Unspecified] != 2 {
		t.Errorf("lost: got %v, want the two that will not run", lost)
	}
}

// ExportAll waits for all its records together.
func TestExportAll(t *testing.T) {
	e := newExporter(t)
	e.Refuse(func(l clienttest.Line) (reason, detail string) {
		if strings.Contains(l.Text, `"sequence":2}`) {
			return "TooLarge", ""
		}
		return "", ""
	})
	for _, mode := range []Mode{Batch, Blocking, BlockingStrict} {
		c := e.client(Config{Mode: mode, Timeout: await.Left(t)})
		if c.Mode() != mode {
			t.Errorf("Mode: got %s, want %s", c.Mode(), mode)
		}
		e.Hold()
		exported := make(chan error, 1)
		var records []*decision.Record
		for range 3 {
			records = append(records, record(decision.Deny, int(c.NextSequence())))
		}
		go func() { exported <- c.ExportAll(within(t), records...) }()
		e.await("all lines at a time", func() bool { return e.Held() == 3 })
		if mode == Batch {
			if err := <-exported; err != nil {
				t.Errorf("ExportAll: %v", err)
			}
		}
		e.Settle(2)
		select {
		case err := <-exported:
			t.Errorf("%s: ExportAll returned %v before the last record was durable", mode, err)
		default:
		}
		e.Release()
		if mode != Batch {
			err := <-exported
			if refused := new(RefusedError); errors.As(err, &refused) != (mode == BlockingStrict) {
				t.Errorf("%s: ExportAll: got %v, want the refusal of the second record in the strict mode only", mode, err)
			}
		}
		closeClient(t, c)
	}
	checkCount(t, e.Lines(), 6)
}
