package producertest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/docket-export/docket/client"
	"github.com/docket-export/docket/client/clienttest/producertest"
	"github.com/docket-export/docket/client/internal/testleak"
	"github.com/docket-export/docket/decision"
)

func TestMain(m *testing.M) { testleak.Main(m) }

// TestSender tries the Sender of package client.
func TestSender(t *testing.T) {
	producertest.Run(t, func(ctx context.Context, address string, records int) error {
		s, err := client.NewSender(client.SenderConfig{Address: address})
		if err != nil {
			return err
		}
		for n := range records {
			if err := s.Send(ctx, fmt.Appendf(nil, `{"n":%d}`, n)); err != nil {
				break // Close says how many are left
			}
		}
		left, err := s.Close(ctx)
		if left > 0 {
			return errors.Join(fmt.Errorf("%d lines left", left), err)
		}
		return err
	})
}

// TestClient tries the Client, from several goroutines.
func TestClient(t *testing.T) {
	producertest.Run(t, func(ctx context.Context, address string, records int) error {
		c, err := client.New(client.Config{Address: address})
		if err != nil {
			return err
		}
		const callers = 16
		errs := make(chan error, callers)
		for caller := range callers {
			go func() {
				for n := caller; n < records; n += callers {
					err := c.LogLine(ctx, fmt.Appendf(nil, `{"n":%d}`, n), decision.Deny)
					if err != nil && !errors.As(err, new(*client.RefusedError)) {
						errs <- err
						return
					}
				}
				errs <- nil
			}()
		}
		for range callers {
			err = errors.Join(err, <-errs)
		}
		_, closeErr := c.Close(ctx)
		return errors.Join(err, closeErr)
	})
}
