package filesink

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"time"

	"github.com/docket-export/docket/internal/disk"
)

// janitor does what becomes due while nothing is sent: it finishes an active file
// that is too old, removes finished files that are, and tells how far the export goes. It
// also sees that somebody removes or replaces the directory.
type janitor struct {
	sink    *sink
	changed chan struct{} // holds one word: the times may have changed
	stop    chan struct{}
	end     sync.Once     // closes stop
	done    chan struct{} // closed when run has ended

	lost    bool      // the directory is not there; guarded by sink.mu
	failed  string    // what was logged last, empty: nothing fails; guarded by sink.mu
	retryAt time.Time // when what fails is tried again, unless an operator asks before; guarded by sink.mu
}

// retryPause is how long the janitor waits after a failure. A delivery that meets
// the same failure meanwhile tries more often and reports it.
const retryPause = time.Minute

// newJanitor makes a janitor that does nothing until it runs.
func newJanitor(s *sink) *janitor {
	return &janitor{sink: s, changed: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
}

// look tells the janitor that something may have become due at another time.
func (j *janitor) look() {
	select {
	case j.changed <- struct{}{}:
	default: // it will look anyway
	}
}

// close ends the janitor and waits for it until ctx is done. It may take long only when the disk
// does not answer; then it may be called again.
func (j *janitor) close(ctx context.Context) error {
	j.end.Do(func() { close(j.stop) })
	select {
	case <-j.done:
		return nil
	default:
	}
	select {
	case <-j.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run works until close is called.
func (j *janitor) run() {
	defer close(j.done)
	timer := time.NewTimer(retryPause)
	defer timer.Stop()
	look := time.NewTicker(disk.LookEvery)
	defer look.Stop()
	for {
		retry := j.sink.retryNow()
		if at, ok := j.next(); ok {
			timer.Reset(time.Until(at))
		} else {
			timer.Stop()
		}
		for due := false; !due; {
			due = true
			select {
			case <-j.stop:
				return
			case <-j.changed:
			case <-look.C:
				j.stand()
				due = false // nothing is due at another time
			case <-timer.C:
				j.work()
			case <-retry:
				j.work()
			}
		}
	}
}

// next is when there is something to do; ok is false when there is nothing.
func (j *janitor) next() (at time.Time, ok bool) {
	j.sink.mu.Lock()
	defer j.sink.mu.Unlock()
	if j.sink.store == nil { // Send has failed, and will be called again, or else
		return time.Now().Add(retryPause), true
	}
	if j.failed != "" {
		return j.retryAt, true
	}
	for _, due := range []func() (time.Time, bool){j.sink.store.dueAt, j.sink.store.removalAt, j.sink.checkpointAt} {
		if t, is := due(); is && (!ok || t.Before(at)) {
			at, ok = t, true
		}
	}
	return at, ok
}

// stand meets that the directory was removed or replaced while nothing is sent, and goes on
// where it is back.
func (j *janitor) stand() {
	j.sink.mu.Lock()
	defer j.sink.mu.Unlock()
	if s := j.sink.store; j.lost || s != nil && !s.broken && s.lock.Check() != nil {
		err := j.tend()
		if j.lost && err == nil {
			j.sink.log.Info("the directory of the export is back")
		}
		j.lost = errors.Is(err, fs.ErrNotExist)
		j.report(err)
	}
}

// work does what is due.
func (j *janitor) work() {
	j.sink.mu.Lock()
	defer j.sink.mu.Unlock()
	j.report(j.tend())
}

func (j *janitor) tend() error {
	if err := j.sink.ready(); err != nil {
		return failure("open again", err)
	}
	if at, ok := j.sink.store.dueAt(); ok && !time.Now().Before(at) {
		if err := j.sink.store.finish(); err != nil {
			return failure("finish a file that is old enough", err)
		}
	}
	_, err := j.sink.removeOld()
	j.sink.checkpoint()
	return err
}

// report shows a failure, logs it when it is new, and logs the end of it.
func (j *janitor) report(err error) {
	switch {
	case err == nil && j.failed != "":
		j.sink.log.Info("files of the export are finished and removed again")
		j.failed = ""
		j.sink.trouble(nil, 0)
	case err != nil:
		j.retryAt = time.Now().Add(retryPause)
		j.sink.trouble(err, retryPause)
		if err.Error() != j.failed {
			j.failed = err.Error()
			if j.lost {
				j.sink.log.Error("the directory of the export was removed or moved: docket continues when it is back", "error", err)
				return
			}
			j.sink.log.Warn("files of the export cannot be finished or removed: they stay, and docket tries again every minute", "error", err)
		}
	}
}
