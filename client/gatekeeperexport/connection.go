package gatekeeperexport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docket-export/docket/client"
	"github.com/docket-export/docket/decision"
)

// replacedTimeout bounds the closing of a connection that was replaced: enough
// for an exporter to restart, and nobody waits for it.
const replacedTimeout = 30 * time.Second

// logger is what a connection needs of *client.Client.
type logger interface {
	LogLines(ctx context.Context, texts []client.Line) []error
	TryLogLine(text []byte, d decision.Decision) error
	Flush(ctx context.Context) error
	Close(ctx context.Context) (left int, err error)
}

// connection is one client and the calls that use it.
type connection struct {
	name   string
	config client.Config // as it was given: compared with that of an update
	logger logger

	calls   sync.WaitGroup // under way
	stalled atomic.Bool    // a call has timed out and the exporter not caught up
	watch   sync.WaitGroup // for the end of that

	// The connection that this one has replaced is closing until oldClosed;
	// endOld takes the rest of its time away. nil when there is none.
	oldClosed chan struct{}
	endOld    context.CancelFunc
}

// replace closes old in the background; what it cannot send is logged.
func (c *connection) replace(old *connection, log *slog.Logger) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), replacedTimeout, errTimeout)
	c.oldClosed, c.endOld = make(chan struct{}), cancel
	go func() {
		defer close(c.oldClosed)
		defer cancel()
		if err := old.close(ctx); err != nil {
			log.Warn("a replaced connection could not send all its records", "error", err)
		}
	}()
}

// close waits for the calls under way, and then, until ctx is done, for what is
// buffered here and in connections that were replaced.
func (c *connection) close(ctx context.Context) error {
	c.calls.Wait()
	left, err := c.logger.Close(ctx)
	c.watch.Wait()
	if c.oldClosed != nil {
		select {
		case <-c.oldClosed:
		case <-ctx.Done():
			c.endOld()
			<-c.oldClosed
		}
	}
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
	for i, err := range c.logger.LogLines(ctx, lines) {
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
	err := c.logger.TryLogLine(r.line, r.decision)
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
		if c.logger.Flush(context.Background()) == nil {
			c.stalled.Store(false)
		}
	})
}
