package queue

import (
	"context"
	"fmt"
)

// SetBack replaces the account of a sink that has no cursor now: before, which the sink must
// still have, by after. The records between the two positions are delivered again. SetBack
// returns once the change is durable; after a crash before that, the sink has one account or
// the other. It fails when the records are no longer kept.
func (q *Queue) SetBack(ctx context.Context, name string, before, after Account) error {
	if err := q.setBack(name, before, after); err != nil {
		return fmt.Errorf("sink %s: %w", name, err)
	}
	if err := q.saveAccounts(ctx); err != nil {
		return fmt.Errorf("sink %s is set back, but not durably yet: %w", name, err)
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
