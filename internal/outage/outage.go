// Package outage decides what of an outage is worth a line of the log, so that a line is a
// change of state.
package outage

import (
	"errors"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// maxTold bounds the lines of what fails in ever other ways, or fails and works by
	// turns: so many failures at once, and one more each quietTime.
	maxTold   = 8
	quietTime = time.Minute
)

// Log remembers what was logged about one thing that may fail and work again. The zero value
// is for a thing that works. Safe for concurrent use.
type Log struct {
	failing atomic.Bool // since it worked last, for Works

	mu       sync.Mutex
	told     []string  // the failures that were said, the last maxTold since it worked; guarded by mu
	failures int       // since it was said that it works; guarded by mu
	spent    int       // of maxTold; guarded by mu
	since    time.Time // spent is of this moment; guarded by mu
}

// Fails notes a failure, and reports whether to log it: once for each text until the thing
// works. Texts that differ only in the own port of a connection are the same.
func (l *Log) Fails(text string) (news bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures++
	l.failing.Store(true)
	text = ownPort.ReplaceAllString(text, "")
	if slices.Contains(l.told, text) || !l.mayTell(time.Now()) {
		return false
	}
	l.told = append(l.told[max(0, len(l.told)+1-maxTold):], text)
	return true
}

// Cause returns the error text of the operating system, or else the text of the innermost
// error. Use it for errors whose texts name another file each time.
func Cause(err error) string {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno.Error()
	}
	for errors.Unwrap(err) != nil {
		err = errors.Unwrap(err)
	}
	return err.Error()
}

// ownPort is how the errors of package net name the near end of a connection, which is
// another for each.
var ownPort = regexp.MustCompile(`\S+:\d+->`)

// mayTell reports whether one more failure may be said. Callers hold mu.
func (l *Log) mayTell(now time.Time) bool {
	back := min(l.spent, int(now.Sub(l.since)/quietTime))
	l.spent -= back
	l.since = l.since.Add(time.Duration(back) * quietTime)
	if l.spent == 0 {
		l.since = now
	}
	if l.spent == maxTold {
		return false
	}
	l.spent++
	return true
}

// Works notes that the thing works, and reports whether to log it: only after a failure that
// was logged. failures is how many there were since Works last reported true.
func (l *Log) Works() (failures int, news bool) {
	if !l.failing.Load() {
		return 0, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failing.Store(false)
	if len(l.told) == 0 {
		return 0, false
	}
	failures, l.told, l.failures = l.failures, l.told[:0], 0
	return failures, true
}
