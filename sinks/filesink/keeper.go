package filesink

import (
	"context"
	"time"
)

// keeper does what becomes due while nothing is sent: it finishes an active file
// that is too old, removes finished files that are, and tells how far the export goes.
type keeper struct {
	sink    *sink
	changed chan struct{} // holds one word: the times may have changed
	stop    chan struct{}
	done    chan struct{} // closed when run has ended

	retryAt time.Time // nothing is tried before; owned by run
	failed  string    // what was logged last; guarded by sink.mu
}

// retryPause is how long the keeper waits after a failure. A delivery that meets
// the same failure meanwhile tries more often and reports it.
const retryPause = time.Minute

// newKeeper makes a keeper that does nothing until it runs.
func newKeeper(s *sink) *keeper {
	return &keeper{sink: s, changed: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
}

// look tells the keeper that something may have become due at another time.
func (k *keeper) look() {
	select {
	case k.changed <- struct{}{}:
	default: // it will look anyway
	}
}

// close ends the keeper, which runs, and waits for it until ctx is done. It may
// take long only when the disk does not answer.
func (k *keeper) close(ctx context.Context) error {
	close(k.stop)
	select {
	case <-k.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run works until close is called.
func (k *keeper) run() {
	defer close(k.done)
	timer := time.NewTimer(retryPause)
	defer timer.Stop()
	for {
		if at, ok := k.next(); ok {
			timer.Reset(time.Until(at))
		} else {
			timer.Stop()
		}
		select {
		case <-k.stop:
			return
		case <-k.changed:
		case <-timer.C:
			k.work()
		}
	}
}

// next is when there is something to do; ok is false when there is nothing.
func (k *keeper) next() (at time.Time, ok bool) {
	k.sink.mu.Lock()
	defer k.sink.mu.Unlock()
	if k.sink.store == nil { // Send has failed, and will be called again, or else
		return time.Now().Add(retryPause), true
	}
	for _, due := range []func() (time.Time, bool){k.sink.store.dueAt, k.sink.store.removalAt, k.sink.checkpointAt} {
		if t, is := due(); is && (!ok || t.Before(at)) {
			at, ok = t, true
		}
	}
	if at.Before(k.retryAt) {
		at = k.retryAt
	}
	return at, ok
}

// work does what is due.
func (k *keeper) work() {
	k.sink.mu.Lock()
	defer k.sink.mu.Unlock()
	err := k.tend()
	if err != nil {
		k.retryAt = time.Now().Add(retryPause)
	}
	k.report(err)
}

func (k *keeper) tend() error {
	if err := k.sink.ready(); err != nil {
		return failure("open again", err)
	}
	if at, ok := k.sink.store.dueAt(); ok && !time.Now().Before(at) {
		if err := k.sink.store.finish(); err != nil {
			return failure("finish a file that is old enough", err)
		}
	}
	_, err := k.sink.removeOld()
	k.sink.checkpoint()
	return err
}

// report logs a failure when it is new, and the end of it.
func (k *keeper) report(err error) {
	switch {
	case err == nil && k.failed != "":
		k.sink.log.Info("finished files are looked after again")
		k.failed = ""
	case err != nil && err.Error() != k.failed:
		k.failed = err.Error()
		k.sink.log.Warn("finished files are not looked after", "error", err)
	}
}
