package queue

import (
	"context"
	"fmt"
)

// SetBack gives a sink that has no cursor now the account after in the place of before, which
// it must have still: what lies between their places is delivered again. It returns once that
// is durable; after a crash in between the sink has the one or the other. It fails when the
// records are no longer kept.
func (q *Queue) SetBack(ctx context.Context, name string, before, after Account) error {
	if err := q.setBack(name, before, after); err != nil {
		return fmt.Errorf("sink %s: %w", name, err)
	}
	if err := q.saveAccounts(ctx); err != nil {
		return fmt.Errorf("sink %s is set back, but that is not durable yet: %w", name, err)
	}
	return nil
}

func (q *Queue) setBack(name string, before, after Account) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if a, parked := q.parked[name]; !parked || a != before {
		return fmt.Errorf("its account has changed meanwhile: try again")
	}
	// From here on the segments are needed again: none of them goes.
	if first := q.newAccount(false).Next; after.Next < first {
		return fmt.Errorf("record %d has just been removed: a replay can begin at record %d", after.Next, first)
	}
	q.parked[name] = after
	wake(q.dirty)
	return nil
}
