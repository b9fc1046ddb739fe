package producertest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/docket-export/docket/client"
	"github.com/docket-export/docket/client/clienttest/producertest"
	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/decision/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSender tries the Sender of package client. It leaves it to its caller to
// send again what was refused as QueueFull.
func TestSender(t *testing.T) {
	producertest.Run(t, func(ctx context.Context, address string, records int) error {
		var mu sync.Mutex
		var full []uint64
		sent := make(map[uint64][]byte)
		s, err := client.NewSender(client.SenderConfig{
			Address: address,
			Refused: func(r stream.Refused) {
				mu.Lock()
				defer mu.Unlock()
				if r.Reason == "QueueFull" {
					full = append(full, r.Seq)
				}
			},
		})
		if err != nil {
			return err
		}
		number := uint64(0)
		send := func(line []byte) error {
			number++
			sent[number] = line
			return s.Send(ctx, line)
		}
		for n := range records {
			if err := send(fmt.Appendf(nil, `{"n":%d}`, n)); err != nil {
				break // Close says how many are left
			}
		}
		again := func() []uint64 {
			mu.Lock()
			defer mu.Unlock()
			list := full
			full = nil
			return list
		}
		for err := s.Flush(ctx); err == nil; err = s.Flush(ctx) {
			list := again()
			if len(list) == 0 {
				break
			}
			for _, n := range list {
				if err := send(sent[n]); err != nil {
					break
				}
			}
		}
		left, err := s.Close(ctx)
		if left > 0 {
			return errors.Join(fmt.Errorf("%d lines left", left), err)
		}
		return err
	})
}

// TestClient tries the Client, from several goroutines. It sends again by itself
// what was refused as QueueFull.
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
