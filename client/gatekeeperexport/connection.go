package gatekeeperexport

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docket-export/docket/client"
)

// connection is one client and the calls that use it.
type connection struct {
	name   string
	config client.Config // as it was given: compared with that of an update
	client *client.Client

	calls   sync.WaitGroup // under way
	stalled atomic.Bool    // a call has timed out and the exporter not caught up
	watch   sync.WaitGroup // for the end of that
}

// close waits for the calls under way, and then as long as timeout for what is buffered.
func (c *connection) close(timeout time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), timeout, errTimeout)
	defer cancel()
	c.calls.Wait()
	left, err := c.client.Close(ctx)
	c.watch.Wait()
	if err != nil {
		return fmt.Errorf("docket connection was closed before all records had arrived: connection %s: %d records are lost: %w", c.name, left, err)
	}
	return nil
}

// publish exports records within the time of ctx and returns an error for each.
func (c *connection) publish(ctx context.Context, data []any) []error {
	errs := make([]error, len(data))
	var lines []client.Line // that are waited for
	var places []int        // of each of them in data
	for i := range data {
		r, err := encode(data[i])
		if err != nil {
			errs[i] = fmt.Errorf("docket cannot encode a record: connection %s: %w", c.name, err)
			continue
		}
		if waits := c.config.Mode != client.Batch || r.endsRun; !waits || c.stalled.Load() {
			errs[i] = c.buffer(r, waits)
			continue
		}
		lines = append(lines, client.Line{Text: r.line, Decision: r.decision})
		places = append(places, i)
	}
	for i, err := range c.client.LogLines(ctx, lines) {
		errs[places[i]] = c.outcome(err)
	}
	return errs
}

// outcome is what Gatekeeper is told of a record that was waited for.
func (c *connection) outcome(err error) error {
	var refused *client.RefusedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused):
		return fmt.Errorf("docket exporter refused a record as %s: connection %s: %s", refused.Reason, c.name, refused.Detail)
	case errors.Is(err, errTimeout):
		c.stall()
		return fmt.Errorf("docket exporter did not acknowledge a record in time: connection %s: %w", c.name, err)
	}
	return fmt.Errorf("docket did not export a record: connection %s: %w", c.name, err)
}

// buffer has r sent and does not wait for it. That is an error where it would be
// waited for if the connection were not stalled.
func (c *connection) buffer(r record, waits bool) error {
	err := c.client.TryLogLine(r.line, r.decision)
	switch {
	case errors.Is(err, client.ErrFull):
		return fmt.Errorf("docket buffer is full and a record was lost: connection %s: %w", c.name, err)
	case err != nil:
		return fmt.Errorf("docket did not export a record: connection %s: %w", c.name, err)
	case waits:
		return fmt.Errorf("docket exporter is not acknowledging and a record waits in memory: connection %s", c.name)
	}
	return nil
}

// stall has calls no longer wait until the exporter has everything that is
// buffered now. It is called with a call under way.
func (c *connection) stall() {
	if c.stalled.Swap(true) {
		return
	}
	c.watch.Go(func() {
		// It ends with the client at the latest, and then there is no next call.
		if c.client.Flush(context.Background()) == nil {
			c.stalled.Store(false)
		}
	})
}
