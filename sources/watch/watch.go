// Package watch tells a source that reads files when to look at its directories again:
// at once where the system reports changes, and now and then in any case, as network
// file systems report none and reports can be lost. It says when to look, never what has
// changed: if you rely on single reports, you miss what happened between two of them.
package watch

import (
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// pause is how long a Watcher is deaf after a report. A file that is written 25,000
	// times a second would otherwise wake two goroutines as often; unread reports of the
	// same change become one in the kernel.
	pause = 5 * time.Millisecond
	// burst is how long it then takes reports without a pause, so that many different
	// ones do not queue up until the kernel drops them.
	burst = time.Millisecond
	// blindPoll is the poll while a directory cannot be watched.
	blindPoll = time.Second
)

// Watcher watches directories. Calls of its methods must not overlap; what C returns may
// be received from anywhere.
type Watcher struct {
	log  *slog.Logger
	c    chan struct{}
	stop chan struct{}
	done chan struct{}

	notify *fsnotify.Watcher // nil: the system gives none, C fires by the poll alone

	// mu is never held over a call of notify: that waits at times until run has taken a
	// report, and run takes mu.
	mu     sync.Mutex
	dirs   map[string]func(name string) bool // whose writes count, by directory; nil: nobody's
	blind  map[string]bool                   // directories that the system does not watch
	poll   time.Duration
	ticker *time.Ticker
}

// New returns a watcher of no directories whose C fires every poll at the latest. It
// never fails: where the system cannot report changes it polls once a second, or every
// poll if that is shorter, and says so once. Close it.
func New(poll time.Duration, log *slog.Logger) *Watcher {
	w := &Watcher{
		log: log, c: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
		dirs: make(map[string]func(string) bool), blind: make(map[string]bool),
		poll: poll, ticker: time.NewTicker(poll),
	}
	var err error
	if w.notify, err = fsnotify.NewWatcher(); err != nil {
		w.notify = nil
		w.ticker.Reset(w.blindPoll())
		log.Warn("the system does not report file changes: docket polls the files (fs.inotify.max_user_instances may be too low)",
			"every", w.blindPoll(), "error", err)
	}
	go w.run()
	return w
}

func (w *Watcher) blindPoll() time.Duration { return min(w.poll, blindPoll) }

// C fires when something may have changed since it last fired. A reader that looks only
// after it has received misses nothing that happens from the moment Add returned.
func (w *Watcher) C() <-chan struct{} { return w.c }

// Add watches a directory for names that come, go or change their permissions, and for
// its own end. It costs one system call and may be repeated, best at every look: a
// directory that was removed and made again is watched again only after another Add. A
// directory that is missing or may not be read is an error. A limit of the system is
// not an error: C fires once a second then.
func (w *Watcher) Add(dir string) error { return w.AddWrites(dir, nil) }

// AddWrites is Add, but C also fires when a file of the directory is written for whose
// name wanted returns true. wanted is called from another goroutine and must not block.
func (w *Watcher) AddWrites(dir string, wanted func(name string) bool) error {
	dir = filepath.Clean(dir)
	w.want(dir, wanted)
	if w.notify == nil {
		return nil
	}
	err := w.notify.Add(dir) // without w.mu: see Watcher.mu
	switch {
	case err == nil:
		w.see(dir)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission), errors.Is(err, fsnotify.ErrClosed):
		w.forget(dir)
		return err
	default:
		w.miss(dir, err)
	}
	return nil
}

// Remove ends the watch of a directory, if there is one.
func (w *Watcher) Remove(dir string) {
	dir = filepath.Clean(dir)
	w.forget(dir)
	if w.notify != nil {
		_ = w.notify.Remove(dir) // it fails where the directory is gone, and its watch with it
	}
}

func (w *Watcher) want(dir string, wanted func(name string) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dirs[dir] = wanted
}

func (w *Watcher) forget(dir string) {
	w.mu.Lock()
	delete(w.dirs, dir)
	w.mu.Unlock()
	w.see(dir)
}

// miss notes that a directory is not watched.
func (w *Watcher) miss(dir string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.blind[dir] {
		return
	}
	w.blind[dir] = true
	w.ticker.Reset(w.blindPoll())
	w.log.Warn("the system does not report changes of a directory: docket polls it (fs.inotify.max_user_watches may be too low)",
		"directory", dir, "every", w.blindPoll(), "error", err)
}

// see notes that a directory is watched, or no longer of interest.
func (w *Watcher) see(dir string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.blind[dir] {
		return
	}
	delete(w.blind, dir)
	if len(w.blind) == 0 {
		w.ticker.Reset(w.poll)
	}
}

// Close ends the watcher. C does not fire afterwards.
func (w *Watcher) Close() {
	close(w.stop)
	<-w.done
	w.ticker.Stop()
	if w.notify != nil {
		_ = w.notify.Close() // nothing was written, and nobody reads any more
	}
}

func (w *Watcher) run() {
	defer close(w.done)
	var events <-chan fsnotify.Event
	var faults <-chan error
	if w.notify != nil {
		events, faults = w.notify.Events, w.notify.Errors
	}
	for {
		select {
		case e := <-events:
			w.report(e)
		case err := <-faults:
			w.log.Debug("reports of changes were lost", "error", err)
			w.fire()
		case <-w.ticker.C:
			w.fire()
			continue
		case <-w.stop:
			return
		}
		if !w.takeBurst(events) {
			return
		}
	}
}

// takeBurst pauses and then takes reports for a moment. It returns false at the end.
func (w *Watcher) takeBurst(events <-chan fsnotify.Event) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.stop:
		return false
	}
	timer.Reset(burst)
	for {
		select {
		case e := <-events:
			w.report(e)
		case <-timer.C:
			return true
		case <-w.stop:
			return false
		}
	}
}

func (w *Watcher) report(e fsnotify.Event) {
	if e.Op != fsnotify.Write || w.wanted(e.Name) {
		w.fire()
	}
}

func (w *Watcher) wanted(path string) bool {
	w.mu.Lock()
	wanted, known := w.dirs[filepath.Dir(path)]
	w.mu.Unlock()
	// A directory under another name, as two of them lead to it: rather once too often.
	return !known || wanted != nil && wanted(filepath.Base(path))
}

func (w *Watcher) fire() {
	select {
	case w.c <- struct{}{}:
	default: // it is to look already
	}
}
