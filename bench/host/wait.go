package host

import (
	"context"
	"fmt"
	"time"
)

// Poll calls done until it is true, with a pause between. It fails as done does, or when
// ctx is done.
func Poll(ctx context.Context, pause time.Duration, done func() (bool, error)) error {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting: %w", ctx.Err())
		}
	}
}

// Sleep waits so long, or fails when ctx is done.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting: %w", ctx.Err())
	}
}
