package client

import (
	"context"
	"slices"
)

// cohort counts the lines that were taken between two calls of flush and are not
// finished.
type cohort struct {
	open int
	// flushed is closed when open is 0 and flush was called. Made by flush.
	flushed chan struct{}
}

// join adds a line to the cohort that the next flush waits for.
func (k *link) join() *cohort {
	c := k.cohorts[len(k.cohorts)-1]
	c.open++
	return c
}

// leave counts a line of c as finished, with mu held.
func (k *link) leave(c *cohort) {
	c.open--
	if c.open > 0 || c.flushed == nil {
		return
	}
	close(c.flushed)
	k.cohorts = slices.DeleteFunc(k.cohorts, func(o *cohort) bool { return o == c })
}

// flush waits until every line taken before is finished.
func (k *link) flush(ctx context.Context) error {
	for _, flushed := range k.unfinished() {
		select {
		case <-flushed:
		case <-k.done:
			return k.whyUnfinished(flushed)
		case <-ctx.Done():
			return ending(ctx)
		}
	}
	return nil
}

// unfinished returns what will be closed when every line taken before is
// finished.
func (k *link) unfinished() (flushed []<-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c := k.cohorts[len(k.cohorts)-1]; c.open > 0 {
		c.flushed = make(chan struct{})
		k.cohorts = append(k.cohorts, &cohort{})
	}
	for _, c := range k.cohorts[:len(k.cohorts)-1] {
		flushed = append(flushed, c.flushed)
	}
	return flushed
}

// whyUnfinished is why a line is not finished although the link has ended.
func (k *link) whyUnfinished(flushed <-chan struct{}) error {
	select {
	case <-flushed:
		return nil
	default:
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.err
}
