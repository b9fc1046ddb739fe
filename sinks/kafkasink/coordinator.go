package kafkasink

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/findcoordinator"
)

// The pauses between two attempts at what a coordinator is about to be ready for: the end
// of the transaction before takes a few milliseconds.
const (
	firstPause   = time.Millisecond
	longestPause = 50 * time.Millisecond
)

// coordinator finds the broker that coordinates the group or the transactions of id.
func (k *cluster) coordinator(ctx context.Context, id string, kind kafka.CoordinatorKeyType) (node int32, err error) {
	err = k.patiently(ctx, func() error {
		answer, err := k.exchange(ctx, &findcoordinator.Request{Key: id, KeyType: int8(kind)})
		if err != nil {
			return err
		}
		found := answer.(*findcoordinator.Response)
		node = found.NodeID
		return codeError(found.ErrorCode, found.ErrorMessage)
	}, kafka.GroupCoordinatorNotAvailable)
	return node, err
}

// patiently calls attempt again while its error is one of passing. It begins none later
// after the first than a request may take.
func (k *cluster) patiently(ctx context.Context, attempt func() error, passing ...kafka.Error) error {
	deadline := time.Now().Add(k.client.Timeout)
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := attempt()
		if !isOneOf(err, passing) || time.Now().Add(pause).After(deadline) {
			return err
		}
		// Two dockets that start at once must not meet for ever.
		if !sleep(ctx, pause/2+rand.N(pause)) {
			return ctx.Err()
		}
	}
}

// sleep returns false when ctx is done first.
func sleep(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func isOneOf(err error, codes []kafka.Error) bool {
	for _, code := range codes {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}

// codeError is the error of a broker's code, nil for none. text may be empty.
func codeError(code int16, text string) error {
	switch {
	case code == 0:
		return nil
	case text == "":
		return kafka.Error(code)
	}
	return fmt.Errorf("%w: %s", kafka.Error(code), text)
}
